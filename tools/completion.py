#!/usr/bin/env python3
"""Completion: scripts for bash, zsh and fish, made from what the command says of itself.

    completion.py COMMAND FOLDER            writes reshard.bash, _reshard and reshard.fish
    completion.py COMMAND FOLDER --check    compares instead; exit status 1 if one differs

The verbs come from `COMMAND help`, their options from `COMMAND help VERB`.
"""
import os
import re
import subprocess
import sys

NOTE = "# Completion of reshard.  Made by tools/completion.py from what the command says of itself: do not edit.\n"
FILES = ("FILE", "RULES", "NAME", "RULES|MESH|whole")


class Option:
    def __init__(self, short, name, argument, doc):
        self.short, self.name, self.argument, self.doc = short, name, argument, doc
        self.values = re.findall(r"\b(local|threads|shm|mpi)\b", doc) if name == "engine" else []
        if argument == "RULES|MESH|whole":
            self.values = ["whole"]
        self.files = argument in FILES and name != "engine"


class Verb:
    def __init__(self, name, doc, answer):
        self.name, self.doc = name, doc
        usage, *lines = answer.split("\n")
        self.options = [Option(*m) for m in map(parse_option, lines) if m]
        self.files = bool(re.search(r"\b(PATH|SRC|A B)\b", usage))
        self.programs = "PROGRAM" in usage


def parse_option(line):
    m = re.match(r"^ +(?:-(\w), |-\?, )?--([a-z-]+)(?:=(\S+))? +(\S.*)", line)
    return m and (m[1], m[2], m[3], m[4])


def ask(command, *words):
    # Long lines are not broken.
    env = dict(os.environ, ARGP_HELP_FMT="rmargin=1000", LC_ALL="C")
    return subprocess.run([command, *words], env=env, check=True, capture_output=True, text=True).stdout


def read_verbs(command):
    listed = re.findall(r"^  ([a-z]+) +(\S.*)", ask(command, "help"), re.M)
    return [Verb(name, doc, "" if name in ("help", "version") else ask(command, "help", name)) for name, doc in listed]


def quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


# ---- bash ----

def bash(verbs):
    names = " ".join(v.name for v in verbs)
    lines = [NOTE + """_reshard() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} options= values= files= programs=
    if [ "$word" = = ]; then word=; elif [ "$before" = = ]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ] || [ "${COMP_WORDS[1]} $COMP_CWORD" = "help 2" ]; then
        COMPREPLY=($(compgen -W '""" + names + """' -- "$word"))
        return
    fi
    case "${COMP_WORDS[1]} $before" in"""]
    for v in verbs:
        for o in v.options:
            if o.argument:
                names = f"'{v.name} --{o.name}'" + (f" | '{v.name} -{o.short}'" if o.short else "")
                lines.append(f"    {names}) values={quote(' '.join(o.values))} files={'yes' if o.files else 'no'} ;;")
    lines.append("    esac\n    if [ -z \"$files\" ]; then\n        case ${COMP_WORDS[1]} in")
    for v in verbs:
        words = " ".join(f"--{o.name}" for o in v.options)
        extra = " files=yes" if v.files else " programs=yes" if v.programs else ""
        if words:
            lines.append(f"        {v.name}) options={quote(words)}{extra} ;;")
    lines.append("""        esac
        case $word in -*) files= programs= ;; *) options= ;; esac
    fi
    [ "$files" != yes ] || { compopt -o filenames 2> /dev/null; COMPREPLY=($(compgen -f -- "$word")); }
    [ "$programs" != yes ] || COMPREPLY=($(compgen -c -- "$word"))
    COMPREPLY+=($(compgen -W "$options $values" -- "$word"))
}
complete -F _reshard reshard
""")
    return "\n".join(lines)


# ---- zsh ----

def zsh_option(o):
    doc = o.doc.replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    action = ""
    if o.argument:
        action = f":{o.argument.replace('|', ' or ')}:"
        action += "_files" if o.files else f"({' '.join(o.values)})" if o.values else " "
    repeat = "*" if "repeated" in doc else ""
    long = quote(f"{repeat}--{o.name}{'=' if o.argument else ''}[{doc}]{action}")
    return [long] + ([quote(f"-{o.short}+[{doc}]{action}")] if o.short else [])


def zsh(verbs):
    lines = ["#compdef reshard\n" + NOTE + """_reshard() {
    local -a verbs
    verbs=("""]
    lines += [f"        {quote(v.name + ':' + v.doc.replace(':', chr(92) + ':'))}" for v in verbs]
    lines.append("""    )
    if ((CURRENT == 2)) || [[ $words[2] == help && CURRENT -eq 3 ]]; then
        _describe verb verbs
        return
    fi
    local verb=$words[2]
    shift words
    ((CURRENT--))
    case $verb in""")
    for v in verbs:
        if v.options:
            rest = "'*:file:_files'" if v.files else "'*::program:_normal'" if v.programs else "'*:layout: '"
            specs = [s for o in v.options for s in zsh_option(o)] + [rest]
            lines.append(f"    {v.name})\n        _arguments " + " \\\n            ".join(specs) + "\n        ;;")
    lines.append("    esac\n}\n_reshard \"$@\"\n")
    return "\n".join(lines)


# ---- fish ----

def fish_option(v, o):
    short = f" -s {o.short}" if o.short else ""
    argument = "" if not o.argument else " -r -F" if o.files else " -x"
    values = f" -a {quote(' '.join(o.values))}" if o.values else ""
    where = quote("__fish_seen_subcommand_from " + v.name)
    return f"complete -c reshard -n {where}{short} -l {o.name}{argument}{values} -d {quote(o.doc)}"


def fish(verbs):
    lines = [NOTE + "complete -c reshard -f"]
    for v in verbs:
        lines.append(f"complete -c reshard -n __fish_use_subcommand -a {v.name} -d {quote(v.doc)}")
    names = " ".join(v.name for v in verbs)
    lines.append(f"complete -c reshard -n '__fish_seen_subcommand_from help' -a {quote(names)}")
    for v in verbs:
        where = quote("__fish_seen_subcommand_from " + v.name)
        if v.files:
            lines.append(f"complete -c reshard -n {where} -F")
        if v.programs:
            lines.append(f"complete -c reshard -n {where} -a '(__fish_complete_command)'")
        lines += [fish_option(v, o) for o in v.options]
    return "\n".join(lines) + "\n"


def main(command, folder, check=None):
    verbs = read_verbs(command)
    stale = 0
    for name, make in (("reshard.bash", bash), ("_reshard", zsh), ("reshard.fish", fish)):
        path, text = os.path.join(folder, name), make(verbs)
        if check:
            if not os.path.exists(path) or open(path).read() != text:
                print(f"{path} is not what the command says; write it with tools/completion.py {command} {folder}")
                stale = 1
        else:
            open(path, "w").write(text)
    return stale


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
