# A sufficient --ceiling does not change the result; sizes may have suffixes.
for size in 0 1 64KiB 2M 1GiB 1G 3K 5MiB; do
    printf 'ABCD' | reshard apply --ceiling $size 'u8[4/x] on x=2' 'u8[4]'; echo " $size"
done
