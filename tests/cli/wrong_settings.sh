# Invalid environment variables are an error, and doctor reports them.
head -c 16 /dev/zero > sixteen
RESHARD_CACHE_BYTES=lots reshard apply 'f32[4]' 'f32[4]' < sixteen | wc -c
RESHARD_SIMD=sse9 reshard apply --engine threads 'f32[4/x] on x=2' 'f32[4]' < sixteen | wc -c
RESHARD_TIMEOUT=1,5 reshard apply --engine shm 'f32[4/x] on x=2' 'f32[4]' < sixteen | wc -c
RESHARD_SIMD=sse9 reshard doctor | grep '^settings'
RESHARD_SIMD=sse9 reshard explain 'f32[4]' 'f32[4]'; echo "exit $?"
RESHARD_SIMD=sse9 reshard help | head -n 1
