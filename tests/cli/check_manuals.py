"""Manuals and completion: both list exactly what the command's help texts list.

    check_manuals.py COMMAND
"""
import codecs
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import skips

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
COMMAND = os.path.abspath(sys.argv[1])
COMPLETION = os.path.join(ROOT, "cli", "completion")
failures = []


def check(what, ok, found=""):
    if not ok:
        failures.append(what)
        print(f"FAILED: {what}" + (f"\n  found: {found}" if found else ""))


def ask(*words):
    env = dict(os.environ, ARGP_HELP_FMT="rmargin=1000", LC_ALL="C")
    return subprocess.run([COMMAND, *words], env=env, check=True, capture_output=True, text=True).stdout


def manual(name):
    path = os.path.join(ROOT, "docs", "man", name + ".1")
    return open(path).read().replace("\\-", "-") if os.path.exists(path) else ""


VERBS = [v for v in re.findall(r"^  ([a-z]+) ", ask("help"), re.M) if v not in ("help", "version")]


# ---- manuals ----

def every_option_of_a_verb_is_in_its_manual_and_no_other():
    for verb in VERBS:
        text = manual("reshard-" + verb)
        given = set(re.findall(r"--[a-z][a-z-]+", ask("help", verb).split("\n", 1)[1])) - {"--help", "--usage"}
        given = {o for o in given if re.search(rf"^ .*{o}\b", ask("help", verb), re.M)}
        head = text.split(".SH EXAMPLES")[0]
        told = set(re.findall(r"--[a-z][a-z-]+", head))
        check(f"reshard-{verb}.1 has {sorted(given - told)}", given <= told)
        known = {o for v in VERBS for o in re.findall(r"--[a-z][a-z-]+", ask("help", v))}
        check(f"reshard-{verb}.1: {sorted(told - known)} are options", told <= known)


def every_verb_is_in_the_manual_of_the_command():
    text = manual("reshard")
    for verb in VERBS:
        check(f"reshard.1 names reshard-{verb}", f"reshard-{verb} (1)" in text)


def every_environment_variable_is_in_the_manual():
    text, names = manual("reshard"), set()
    for folder in ("src", "cli"):
        for path, _, files in os.walk(os.path.join(ROOT, folder)):
            for name in files:
                if name.endswith(".c"):
                    source = open(os.path.join(path, name)).read()
                    names |= set(re.findall(r'"((?:RESHARD_[A-Z_]+|NO_COLOR))"', source))
    check("variables were found in the sources", len(names) > 8, names)
    for name in sorted(names):
        check(f"reshard.1 has {name}", f".B {name}\n" in text)
    for name in set(re.findall(r"RESHARD_[A-Z_]+", text)):
        check(f"{name} of reshard.1 is in the sources", name in names)


def groff_has_nothing_to_say():
    if not shutil.which("groff"):
        return skips.skip("groff", "there is no groff to read the manuals")
    for name in ["reshard.1", "reshard-rules.5", "reshard-layout.7"] + [f"reshard-{v}.1" for v in VERBS]:
        path = os.path.join(ROOT, "docs", "man", name)
        said = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", path], capture_output=True, text=True)
        check(f"groff reads {name}", not said.returncode and not said.stderr, said.stderr)


# ---- completion ----

def completion_is_what_the_command_says():
    tool = os.path.join(ROOT, "tools", "completion.py")
    said = subprocess.run([sys.executable, tool, COMMAND, COMPLETION, "--check"], capture_output=True, text=True)
    check("completion is up to date", not said.returncode, said.stdout + said.stderr)


CASES = [("explai", "explain"), ("apply --eng", "--engine"), ("apply --engine thr", "threads"), ("help verif", "verify"),
         ("convert a b --max-shard-s", "--max-shard-size"), ("bench --engine sh", "shm")]


def bash_completes():
    script = 'source "$1"; shift; COMP_WORDS=(reshard "$@"); COMP_CWORD=$#; _reshard; echo "${COMPREPLY[*]}"'
    for typed, wanted in CASES:
        path = os.path.join(COMPLETION, "reshard.bash")
        said = subprocess.run(["bash", "-c", script, "bash", path, *typed.split(" ")], capture_output=True, text=True)
        check(f"bash completes '{typed}' to {wanted}", said.stdout.split() == [wanted] and not said.stderr,
              said.stdout + said.stderr)


def fish_completes():
    if not shutil.which("fish"):
        return skips.skip("fish", "there is no fish")
    lines = "; ".join(f"echo '#'; complete -C 'reshard {typed}'" for typed, _ in CASES)
    script = f"source {os.path.join(COMPLETION, 'reshard.fish')}; {lines}"
    said = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True)
    answers = [a.split("\t")[0].strip() for a in said.stdout.split("#\n")[1:]]
    check("fish completes", answers == [w for _, w in CASES] and not said.stderr, said.stdout + said.stderr)


def read_until(fd, wanted, seconds=100):
    seen, end = "", time.time() + seconds
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while wanted not in seen and time.time() < end:
        if select.select([fd], [], [], 0.2)[0]:
            try:
                seen += decoder.decode(os.read(fd, 65536))
            except OSError:
                break
    return seen


def zsh_completes():
    if not shutil.which("zsh"):
        return skips.skip("zsh", "there is no zsh")
    if not skips.has_terminals():
        return skips.skip("terminal", "no terminal can be made here (/dev/pts)")
    pid, fd = pty.fork()
    if not pid:
        os.environ.update(TERM="dumb", ZDOTDIR="/nonexistent", PS1="")
        os.execlp("zsh", "zsh", "-f", "-i")
    os.write(fd, f"fpath=({COMPLETION} $fpath); autoload -U compinit; compinit -u -D; echo rea''dy\n".encode())
    check("zsh loads the completion", "ready" in read_until(fd, "ready"))
    for typed, wanted in CASES:
        os.write(fd, f"reshard {typed}\t".encode())
        seen = read_until(fd, wanted)
        check(f"zsh completes '{typed}' to {wanted}", wanted in seen, seen)
        os.write(fd, b"\x15")  # Ctrl-U deletes the line
    os.write(fd, b"exit\n")
    os.close(fd)
    os.waitpid(pid, 0)


for test in (every_option_of_a_verb_is_in_its_manual_and_no_other, every_verb_is_in_the_manual_of_the_command,
             every_environment_variable_is_in_the_manual, groff_has_nothing_to_say, completion_is_what_the_command_says,
             bash_completes, fish_completes, zsh_completes):
    test()
print(f"{len(failures)} failures")
sys.exit(skips.exit_status(len(failures)))
