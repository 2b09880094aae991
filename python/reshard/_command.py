"""Where the command `reshard` of this package is."""
import os


def command():
    """The path of the command that belongs to this package."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "reshard")
    if not os.access(path, os.X_OK):
        raise FileNotFoundError(f"the command is missing: {path}; build the package with \"make python\"")
    return path


def main():
    """The script `reshard` that pip installs."""
    import sys

    path = command()
    os.execv(path, [path] + sys.argv[1:])
