# The version, and the verbs.
reshard --version
reshard --help
