# Wrong usage ends with 2 and says why.
reshard explain 'f32[4]'; echo "exit $?"
reshard explain 'f32[4]' 'f32[4]' 'f32[4]'; echo "exit $?"
reshard explain --frobnicate 'f32[4]' 'f32[4]'; echo "exit $?"
reshard explain --ranks-per-node many 'f32[4]' 'f32[4]'; echo "exit $?"
reshard apply --ceiling 12XB 'f32[4]' 'f32[4]'; echo "exit $?"
reshard apply --engine smoke 'f32[4]' 'f32[4]'; echo "exit $?"
reshard bench --repeat 0 'f32[4]' 'f32[4]'; echo "exit $?"
reshard doctor now; echo "exit $?"
