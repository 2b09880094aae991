"""Progress: a bar on a terminal or in a notebook, or a callback."""
import contextlib
import sys
import threading
import time


class _Follower:
    """Called by the library: tell(done, total) returns true to stop the work."""

    def __init__(self, show):
        self.show, self.stop = show, threading.Event()

    def tell(self, done, total):
        stop = self.show(done, total) if self.show and not self.stop.is_set() else False
        return bool(stop) or self.stop.is_set()


class _Bar:
    """One line on a terminal that is overwritten, at most ten times per second."""

    def __init__(self, title, out):
        self.title, self.out, self.last, self.begun = title, out, 0.0, time.monotonic()

    def line(self, done, total):
        share = done / total if total else 1.0
        filled = int(30 * share)
        rate = done / max(time.monotonic() - self.begun, 1e-9) / 1e6
        return f"{self.title} [{'#' * filled}{'.' * (30 - filled)}] {100 * share:3.0f} %  {rate:.0f} MB/s"

    def __call__(self, done, total):
        now = time.monotonic()
        if done < total and now - self.last < 0.1:
            return
        self.last = now
        self.write(self.line(done, total))

    def write(self, line):
        self.out.write("\r" + line)
        self.out.flush()

    def end(self):
        if self.last:
            self.out.write("\n")
            self.out.flush()


class _NotebookBar(_Bar):
    """The same in the output of a notebook cell, which is updated."""

    def __init__(self, title):
        super().__init__(title, None)
        from IPython.display import display

        self.handle = display({"text/plain": title}, raw=True, display_id=True)

    def write(self, line):
        self.handle.update({"text/plain": line}, raw=True)

    def end(self):
        pass


def _in_notebook():
    shell = sys.modules.get("IPython")
    shell = shell and shell.get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


@contextlib.contextmanager
def follow(progress, title):
    """Yields a follower for `progress`: None, False, True (a bar) or a function of (done, total)."""
    if callable(progress) or not progress:
        yield _Follower(progress if callable(progress) else None)
        return
    bar = _NotebookBar(title) if _in_notebook() else _Bar(title, sys.stderr)
    try:
        yield _Follower(bar)
    finally:
        bar.end()
