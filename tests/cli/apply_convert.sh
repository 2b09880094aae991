# apply converts elements between dtypes.
printf '\001\002\003\377' | reshard apply 'i8[4/x] on x=2' 'i32[4]' | od -An -td4
