# What there is, one line each.
reshard doctor | sed 's/ .*//'
reshard doctor --json | sed 's/:.*//'
