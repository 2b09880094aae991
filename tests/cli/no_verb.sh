# Nothing asked: the verbs, on stderr.
reshard
