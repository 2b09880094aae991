# Prints the version and the verbs.
reshard --version
reshard --help
