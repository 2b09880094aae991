# Partial sums are added up; if the result is partial, the first contribution has the value.
printf '\001\002\003\004\020\020\020\020' | reshard apply 'u8[4] on x=2 sum(x)' 'u8[4/x] on x=2' | od -An -tu1
printf '\001\002\003\004' | reshard apply 'u8[4]' 'u8[4] on x=2 sum(x)' | od -An -tu1
