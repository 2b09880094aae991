"""Terminal: what the command prints on a terminal: progress, colours, and what Ctrl-C leaves behind.

    check_terminal.py COMMAND
"""
import codecs
import fcntl
import glob
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import skips

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts this in the background ignores it for all
COMMAND = os.path.abspath(sys.argv[1])
MIB = 1 << 20
PATIENCE = 100  # seconds, on a machine that is busy
ATTEMPTS = 20  # number of tries if a test needs a command to run for a while
failures = []


def check(what, ok, found=""):
    if not ok:
        failures.append(what)
        print(f"FAILED: {what}\n  found: {found!r}")


class Seat:
    """A command on a terminal of this test.  Streams that are not given a pipe or file are the terminal."""

    def __init__(self, *words, stdin=None, stdout=None, env=None, size=(0, 0)):
        self.seen = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a read may end in the middle of a character
        self.pid, self.fd = pty.fork()
        if not self.pid:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
            if stdin is not None:
                os.dup2(stdin, 0)
            if stdout is not None:
                os.dup2(stdout, 1)
            os.environ.update({"TERM": "xterm-256color", "LC_ALL": "C", **(env or {})})
            os.execv(COMMAND, ["reshard", *words])

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            self.seen += self.decoder.decode(os.read(self.fd, 65536))
            return True
        except OSError:  # the other end is closed
            return False

    def waits_for(self, pattern):
        end = time.time() + PATIENCE
        while not re.search(pattern, self.seen) and time.time() < end and self.read(0.2):
            pass
        return bool(re.search(pattern, self.seen))

    def types(self, text):
        os.write(self.fd, text)

    def ends(self):
        while self.read(PATIENCE):
            pass
        os.close(self.fd)
        return os.waitpid(self.pid, 0)[1]


def killed_by(status, number):
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == number


# ---- progress ----

LINE = r"apply: reading, 1\.0 MiB of 2\.0 MiB \(50 %\), [0-9.]+ [KM]iB/s, \d+ s left"


def apply_tells_bytes_rate_and_time_left():
    for engine in ("local", "threads", "shm"):
        into, out = os.pipe()
        with tempfile.TemporaryFile() as result:
            seat = Seat("apply", "--engine", engine, "u8[2097152/x] on x=2", "u8[2097152]", stdin=into, stdout=result.fileno())
            os.close(into)
            os.write(out, b"a" * 65536)
            for _ in range(15):
                os.write(out, b"a" * 65536)
            check(f"{engine}: progress is shown", seat.waits_for(LINE), seat.seen)
            for _ in range(16):
                os.write(out, b"b" * 65536)
            os.close(out)
            check(f"{engine}: apply succeeds", seat.ends() == 0, seat.seen)
            check(f"{engine}: the line is wiped", seat.seen.endswith("\r\033[K"), seat.seen[-80:])
            result.seek(0)
            check(f"{engine}: the bytes are right", result.read() == b"a" * MIB + b"b" * MIB)


def apply_tells_how_much_has_moved(folder):
    source, n, shares = os.path.join(folder, "source"), 8192, []
    for _ in range(ATTEMPTS):  # until it takes longer than a moment
        with open(source, "wb") as f, open(os.devnull, "wb") as nothing:
            f.truncate(n * n)
            seat = Seat("apply", "--in", source, f"u8[{n}, {n}] order(1,0)", f"i16[{n}, {n}]", stdout=nothing.fileno())
            check("it succeeds", seat.ends() == 0, seat.seen)
        shares = [int(s) for s in re.findall(r"apply: moving, [^(]* \((\d+) %\), .*?/s, \d+ (?:s|min) left", seat.seen)]
        if shares:
            break
        n = min(2 * n, 16384)
    check("what has moved grows", shares and shares == sorted(shares) and shares[-1] <= 100, seat.seen)


def nothing_is_shown_where_stderr_is_no_terminal():
    p = subprocess.Popen([COMMAND, "apply", "u8[4]", "u8[4]"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    time.sleep(0.5)
    answer = p.communicate(b"ABCD")
    check("a pipe gets no progress", answer == (b"ABCD", b""), answer)


def bench_tells_how_far_it_is():
    for engine in ("threads", "shm"):
        seat = Seat("bench", "--engine", engine, "--repeat", "1000000", "f32[512/x, 512] on x=2", "f32[512, 512/x] on x=2")
        shown = seat.waits_for(r"bench: alternating memcpy, stream and the move, .* of .* \(\d+ %\), .*/s, .* left")
        check(f"bench on {engine} shows progress", shown, seat.seen)
        seat.types(b"\x03")
        status = seat.ends()
        check(f"bench on {engine} ends by SIGINT", killed_by(status, signal.SIGINT), status)
        said = re.findall(r"reshard: interrupted: nothing was written", seat.seen)
        check(f"bench on {engine} says it once", len(said) == 1, seat.seen)


def planning_tells_what_is_left():
    ranks = 1 << 22
    for _ in range(ATTEMPTS):  # until it takes longer than a moment
        seat = Seat("explain", f"f32[{ranks}/x~, 7] on x={ranks}", f"f32[{ranks}/x:3, 7] on x={ranks}")
        seat.waits_for(r"planning .*, [1-9]\d %, |planned in|reshard: ")
        shares = [int(s) for s in re.findall(f"explain: planning for {ranks} ranks, (\\d+) %, \\d+ (?:s|min) left", seat.seen)]
        seat.types(b"\x03")
        seat.ends()
        if shares:
            break
        ranks = min(2 * ranks, 1 << 24)
    check("planning tells what is left", shares and shares == sorted(shares) and shares[-1] <= 100, seat.seen)


# ---- input from a terminal, and Ctrl-C ----

def apply_says_that_it_waits_for_the_terminal():
    with tempfile.TemporaryFile() as result:
        seat = Seat("apply", "u8[5/x] on x=2", "u8[5]", stdout=result.fileno())
        said = "reshard: reading the 5 bytes of FROM from the terminal; press Ctrl-D at the end"
        check("apply says that it waits", seat.waits_for(re.escape(said)), seat.seen)
        seat.read(0.4)
        seat.types(b"abcd\n\x04")
        check("and goes on", seat.ends() == 0, seat.seen)
        check("nothing is painted over what is typed", "reading," not in seat.seen, seat.seen)
        result.seek(0)
        check("with what was typed", result.read() == b"abcd\n")


def ctrl_c_says_that_nothing_was_written():
    for engine in ("local", "threads", "shm"):
        into, out = os.pipe()
        seat = Seat("apply", "--engine", engine, "u8[200000]", "u8[200000]", stdin=into)
        os.close(into)
        os.write(out, b"a" * 1000)
        check("it reads", seat.waits_for("apply: reading"), seat.seen)
        seat.types(b"\x03")
        status = seat.ends()
        os.close(out)
        check(f"{engine}: it ends by SIGINT", killed_by(status, signal.SIGINT), status)
        check(f"{engine}: it says so once", seat.seen.count("reshard: interrupted: nothing was written") == 1, seat.seen)


def ctrl_c_says_which_file_is_not_complete(folder):
    source = os.path.join(folder, "whole")
    open(source, "wb").write(b"ABCDEF")
    os.mkfifo(os.path.join(folder, "part1"))  # nobody reads it, so opening it blocks
    seat = Seat("apply", "u8[6]", "u8[6/x] on x=3", "--in", source, "--out", os.path.join(folder, "part%d"))
    check("it writes", seat.waits_for("apply: writing"), seat.seen)
    seat.types(b"\x03")
    check("it ends by SIGINT", killed_by(seat.ends(), signal.SIGINT))
    check("it names the file", "part1 was not written; the files before it are complete" in seat.seen, seat.seen)
    check("part0 is there", open(os.path.join(folder, "part0"), "rb").read() == b"AB")
    check("part2 is not", not os.path.exists(os.path.join(folder, "part2")))


def end_while_it_writes(engine, number, source, target):
    """Tries larger and larger files, until the signal arrives before the command ends."""
    size = 64 * MIB
    for _ in range(ATTEMPTS):
        os.truncate(source, size)
        p = subprocess.Popen([COMMAND, "apply", "--engine", engine, f"u8[{size}]", f"u8[{size}]", "--in", source, "--out", target], stderr=subprocess.PIPE)
        while p.poll() is None and not os.path.exists(target + ".reshard-partial"):
            pass
        p.send_signal(number)
        said = p.communicate()[1].decode()
        if p.returncode == -number:
            return said
        open(target, "wb").write(b"as it was")
        size = min(2 * size, 512 * MIB)
    return "it always came to its end"


def what_ends_while_it_writes_leaves_files_as_they_were():
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:  # in memory, so that no disk slows it down
        check_ends_in(folder)


def check_ends_in(folder):
    source, target = os.path.join(folder, "source"), os.path.join(folder, "target")
    open(source, "wb").close()
    for engine, number in (("local", signal.SIGINT), ("threads", signal.SIGTERM), ("shm", signal.SIGTERM)):
        open(target, "wb").write(b"as it was")
        said = end_while_it_writes(engine, number, source, target)
        check(f"{engine}: it says so", "written" in said, said)
        check(f"{engine}: the target is as it was", open(target, "rb").read() == b"as it was")
        end = time.time() + PATIENCE  # a rank that writes ends after the rank that prints
        while len(os.listdir(folder)) > 2 and time.time() < end:
            time.sleep(0.01)
        check(f"{engine}: nothing lies beside it", sorted(os.listdir(folder)) == ["source", "target"], os.listdir(folder))


def write_checkpoint(path, size):
    header = b'{"w":{"dtype":"U8","shape":[%d,1024],"data_offsets":[0,%d]}}' % (size // 1024, size)
    with open(path, "wb") as f:
        f.write(len(header).to_bytes(8, "little") + header)
        f.truncate(8 + len(header) + size)


def convert_tells_how_far_it_is_and_what_it_left(folder):
    source, result, rules = (os.path.join(folder, n) for n in ("a.safetensors", "b", "two.rules"))
    open(rules, "w").write("mesh tp=2\n* [_, _/tp]\n")
    words = ("convert", source, result, "--to", rules, "--mem", "4M", "--threads", "1")
    size = 64 * MIB
    for _ in range(ATTEMPTS):  # until the command runs long enough for a key press
        write_checkpoint(source, size)
        seat = Seat(*words, "--force")
        shown = seat.waits_for(r"convert, .* of .* \(\d+ %\), .*/s, .* left|tensor, 2 files")
        seat.types(b"\x03")
        status = seat.ends()
        if "left" in seat.seen and killed_by(status, signal.SIGINT) and os.path.exists(result + ".reshard-partial"):
            break
        size = min(2 * size, 512 * MIB)
    check("convert shows progress", shown and "left" in seat.seen, seat.seen)
    check("convert ends by SIGINT", killed_by(status, signal.SIGINT), (status, seat.seen))
    said = f"reshard: interrupted: {result}.reshard-partial holds the finished part; use --resume to continue"
    check("it says what was left", said in seat.seen, seat.seen)
    check("which is there", os.path.exists(result + ".reshard-partial"))
    resumed = subprocess.run([COMMAND, *words, "--resume", "--force"], capture_output=True, text=True)
    check("--resume goes on", resumed.returncode == 0 and not glob.glob(result + ".reshard-partial"), resumed)


# ---- colours ----

def text_left(seen):
    """Returns the final text on the terminal, without erased lines and without colours."""
    return re.sub(r"\033\[[0-9;]*[mK]|\r", "", re.sub(r"[^\n]*\r\033\[K", "", seen))


def colours_are_those_of_the_ranks_and_can_be_refused():
    words = ("explain", "f32[64/x, 64] on x=4", "f32[64, 64/x] on x=4")
    plain = subprocess.run([COMMAND, *words], capture_output=True, text=True).stdout
    check("a pipe gets no colours", "\033" not in plain)
    seat = Seat(*words)
    seat.ends()
    fills = re.findall(r"\033\[48;5;(\d+);38;5;\d+m {15,}(\d) {15,}\033\[0m", seat.seen)
    check("each rank has a colour", len(set(dict((r, c) for c, r in fills).values())) == 4, seat.seen)
    stripped = text_left(seat.seen)
    same = [line for line in plain.split("\n") if "planned in" not in line]
    check("the rest is the same", [x for x in stripped.split("\n") if "planned in" not in x] == same, stripped)
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        seat = Seat(*words, env=env)
        seat.ends()
        check(f"no colours with {env}", "\033[48" not in seat.seen, seat.seen)


def columns(text):
    plain = text_left(text)
    return max(map(len, plain.split("\n"))), plain


def pictures_fit_the_terminal():
    words = ("explain", "f32[64/x, 64] on x=4", "f32[64, 64/x] on x=4")
    for width, panels in ((120, 1), (80, 2), (48, 2), (30, 0)):
        seat = Seat(*words, size=(24, width))
        seat.ends()
        picture = seat.seen[:seat.seen.index("tensor  ")]
        wide, plain = columns(picture)
        check(f"{width} columns hold the picture", wide <= width or not panels, picture)
        check(f"{width} columns: panels", len(re.findall("\u250c.*\u2510", plain)) == panels, plain)
        check(f"{width} columns: what moves", "moves" in plain if panels else "--svg" in plain, plain)


def names_in_files_do_not_steer_the_terminal(folder):
    path = os.path.join(folder, "a.safetensors")
    header = b'{"w\\u001b[31m":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    open(path, "wb").write(len(header).to_bytes(8, "little") + header + b"x")
    seat = Seat("inspect", path)
    seat.ends()
    check("the name is spelled out", "w\\x1b[31m" in seat.seen and "\033" not in seat.seen, seat.seen)


# ---- memory ----

def resident(leader):
    """Returns the bytes of memory of a process and its children; shared memory counts once."""
    family, total = [str(leader)], 0
    for pid in family:
        family += open(f"/proc/{pid}/task/{pid}/children").read().split()
        total += int(re.search(r"^Pss: +(\d+)", open(f"/proc/{pid}/smaps_rollup").read(), re.M)[1]) * 1024
    return total


def apply_takes_the_memory_of_the_two_tensors():
    if skips.is_sanitized(COMMAND):
        return skips.skip("sanitizer", "a sanitizer needs memory of its own; the plain build runs it")
    size = 64 * MIB
    for engine in ("local", "threads", "shm"):
        p = subprocess.Popen([COMMAND, "apply", "--engine", engine, f"u8[{size}/x] on x=2", f"u8[{size}/x:4096] on x=2"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        block = bytes(MIB)
        for _ in range(size // MIB):
            p.stdin.write(block)
        p.stdin.close()
        first = p.stdout.read(1)  # everything has moved, and nothing is freed until this test reads more
        taken = resident(p.pid)
        window = 64 * MIB if engine == "shm" else 0
        check(f"{engine}: two tensors, and {window >> 20} MiB", taken < 2 * size + window + 24 * MIB, taken / MIB)
        check(f"{engine}: all comes", len(first) + len(p.stdout.read()) == size and p.wait() == 0)


TESTS = [apply_tells_bytes_rate_and_time_left, apply_tells_how_much_has_moved, nothing_is_shown_where_stderr_is_no_terminal,
         bench_tells_how_far_it_is, planning_tells_what_is_left, apply_says_that_it_waits_for_the_terminal,
         ctrl_c_says_that_nothing_was_written, ctrl_c_says_which_file_is_not_complete,
         what_ends_while_it_writes_leaves_files_as_they_were, convert_tells_how_far_it_is_and_what_it_left, colours_are_those_of_the_ranks_and_can_be_refused,
         pictures_fit_the_terminal, names_in_files_do_not_steer_the_terminal,
         apply_takes_the_memory_of_the_two_tensors]
if not skips.has_terminals():
    skips.skip("terminal", "no terminal can be made here (/dev/pts)")
    sys.exit(skips.exit_status(0))
for test in TESTS:
    started = time.time()
    with tempfile.TemporaryDirectory() as scratch:
        test(*[scratch] * test.__code__.co_argcount)
    print(f"{time.time() - started:5.1f} s  {test.__name__}", flush=True)
print(f"{len(TESTS)} tests, {len(failures)} failures")
sys.exit(skips.exit_status(len(failures)))
