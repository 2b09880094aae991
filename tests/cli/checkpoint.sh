# Converts a checkpoint to rank files, and back to whole tensors.
header='{"q.weight":{"dtype":"F32","shape":[4,2],"data_offsets":[0,32]},"norm":{"dtype":"BF16","shape":[3],"data_offsets":[32,38]}}'
printf '\173\0\0\0\0\0\0\0%s%s' "$header" 0123456789abcdef0123456789abcdefABCDEF > a.safetensors
printf 'mesh tp=2\nq.* [_/tp, _]\n* [...]\n' > two.rules
reshard inspect a.safetensors
reshard convert a.safetensors two --to two.rules --dry-run
reshard convert a.safetensors two --to two.rules > /dev/null
reshard inspect two
reshard convert two b.safetensors --to whole --verify | tail -n 1
reshard verify a.safetensors b.safetensors
reshard convert two b.safetensors --to whole; echo "exit $?"
printf 'Z' | dd of=b.safetensors bs=1 seek=$(($(wc -c < b.safetensors) - 12)) conv=notrunc 2> /dev/null
reshard verify two b.safetensors; echo "exit $?"
reshard verify two b.safetensors --json; echo "exit $?"
reshard inspect two --json | head -c 60; echo
reshard convert a.safetensors c --to nothing.rules; echo "exit $?"
echo "hello there" > words.safetensors
reshard inspect words.safetensors; echo "exit $?"
reshard inspect - 2>&1 | head -n 1
reshard convert a.safetensors - --to whole 2>&1 | head -n 1
reshard verify a.safetensors "" 2>&1 | head -n 1
ls
