# A slip of the finger gets a hint, another word does not.
reshard explian; echo "exit $?"
reshard benchmark; echo "exit $?"
reshard teleport; echo "exit $?"
