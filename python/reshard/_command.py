"""Finds the command `reshard` of this package."""
import os


def command():
    """Returns the path of the command in this package."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "reshard")
    if not os.access(path, os.X_OK):
        raise FileNotFoundError(f"command not found: {path}; build the package with \"make python\"")
    return path


def main():
    """Runs the command; pip installs this as the script `reshard`."""
    import sys

    path = command()
    os.execv(path, [path] + sys.argv[1:])
