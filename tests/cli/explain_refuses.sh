# A matrix that is too large is rejected with its size, and so are too many ranks.
reshard explain --matrix 'f32[65536/x, 65536] on x=65536' 'f32[65536, 65536/x] on x=65536'; echo "exit $?"
reshard explain 'f32[16777216/x] on x=16777216' 'f32[16777216/x:1] on x=16777216'; echo "exit $?"
