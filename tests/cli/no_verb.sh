# Nothing asked: the verbs, as talk.
reshard
