# Control characters are escaped in all output, whatever they come from.
escape=$(printf '\033[31m')
reshard "$escape"
reshard explain "f32[4/${escape}x]" 'f32[4]'
reshard explain "--$escape" 'f32[4]' 2>&1 | head -n 1
reshard explain --ranks-per-node "$escape" 'f32[4]' 'f32[4]' 2>&1 | head -n 1
reshard inspect "no$escape/such"
printf 'f32[4\377]' > layout
reshard explain @layout 'f32[4]'
reshard apply --in "$(printf '\302\233')" 'u8[4]' 'u8[4]'
exit 0
