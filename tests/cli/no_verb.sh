# Without arguments, the command lists its verbs on stderr.
reshard
