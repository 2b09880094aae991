# A slip of the finger gets a hint, another word does not.
reshard explian; echo "exit $?"
reshard benchmark; echo "exit $?"
reshard teleport; echo "exit $?"
reshard 'f32[4]' 'f32[4]'; echo "exit $?"
