# doctor prints one line for each property.
reshard doctor | sed 's/ .*//'
reshard doctor --json | sed 's/:.*//'
