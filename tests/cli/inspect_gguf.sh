# inspect lists a GGUF file: types, shapes (slowest dim first) and bytes.  Quantised tensors can be written to GGUF files only.
printf '\107\107\125\106\003\000\000\000\002\000\000\000\000\000\000\000\001\000\000\000\000\000\000\000\014\000\000\000\000\000\000\000\147\145\156\145\162\141\154\056\156\141\155\145\010\000\000\000\001\000\000\000\000\000\000\000\170\007\000\000\000\000\000\000\000\142\154\153\056\060\056\167\002\000\000\000\100\000\000\000\000\000\000\000\004\000\000\000\000\000\000\000\002\000\000\000\000\000\000\000\000\000\000\000\004\000\000\000\000\000\000\000\156\157\162\155\001\000\000\000\040\000\000\000\000\000\000\000\000\000\000\000\220\000\000\000\000\000\000\000' > a.gguf
head -c 292 /dev/zero >> a.gguf # the data begins at byte 160
reshard inspect a.gguf
reshard convert a.gguf b.safetensors --to whole
reshard convert a.gguf b.safetensors --to whole --drop --json | grep tensors
head -c 60 a.gguf > cut.gguf
reshard inspect cut.gguf
exit 0
