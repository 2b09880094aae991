# The package is built by the build that runs this page; its code runs in tests/python.
# elsewhere: make python: the build that runs this page has built it
