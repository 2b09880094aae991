#!/usr/bin/env python3
"""Fortran: interfaces for Fortran 2003 (ISO_C_BINDING), made from the public headers.

    fortran.py write   [ROOT]     writes fortran/reshard.f03
    fortran.py check   [ROOT]     says whether that file is what `write` would write
    fortran.py asserts [ROOT]     prints C that compiles only if the sizes of structs are those that the file assumes

The headers are read after the C preprocessor ($CC, or cc), so that lists that macros make are complete.  Covered are the
headers in HEADERS: the core, checkpoints and MPI.  A function or struct with a type that Fortran cannot name is left out,
and the file says so.

A pointer to a const struct becomes type(c_ptr), value: pass c_loc(x), or c_null_ptr where NULL is allowed.  Other
pointers become arguments by reference; arrays are assumed-size.
"""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
from c_text import bare, finish, read

HEADERS = ("version", "status", "sink", "progress", "message", "dtype", "layout", "plan", "tensor", "pool", "comm", "shard", "ckpt", "mpi_world")
NUMBERS = {"int": "integer(c_int)", "unsigned": "integer(c_int)", "int64_t": "integer(c_int64_t)", "uint64_t": "integer(c_int64_t)",
           "int32_t": "integer(c_int32_t)", "uint32_t": "integer(c_int32_t)", "size_t": "integer(c_size_t)",
           "double": "real(c_double)", "float": "real(c_float)", "_Bool": "logical(c_bool)", "char": "character(kind=c_char)"}
BYTES = {"int": 4, "unsigned": 4, "int64_t": 8, "uint64_t": 8, "int32_t": 4, "uint32_t": 4, "size_t": 8, "double": 8, "float": 4,
         "_Bool": 1, "char": 1}
LISTS = {"index", "rounds", "shape", "strides", "sizes", "offsets", "ranks"}  # parameters that are written as lists
MANY = re.compile(r"_many$")  # functions whose out parameter is a list
HEAD = """! Interfaces of reshard for Fortran 2003.  Made by tools/fortran.py from the C headers; do not edit.
!
! Include it where declarations stand, after "use, intrinsic :: iso_c_binding", or use the module in
! reshard_module.f90, which includes it.  The C headers say what the functions do.  uint64_t is
! integer(c_int64_t): large values look negative.
"""


class Unknown(Exception):
    """A type that has no name in Fortran."""


class Headers:
    """What the headers declare, in their order."""

    def __init__(self, root):
        self.text = self.preprocess(root)
        self.enums, self.structs, self.functions, self.pointers, self.opaque = {}, {}, [], set(), set()
        self.macros, self.starts = {}, {}
        for name in HEADERS:
            self.read_macros(re.sub(r"\\\n", " ", bare(read(root, f"include/reshard/{name}.h"))))
        self.read_types()
        self.read_functions()

    @staticmethod
    def preprocess(root):
        source = "".join(f"#include <reshard/{name}.h>\n" for name in HEADERS)
        compiler = os.environ.get("CC", "cc").split()
        got = subprocess.run(compiler + ["-E", "-x", "c", "-std=c11", "-I", os.path.join(root, "include"), "-"], input=source, text=True,
                             capture_output=True, check=True).stdout
        ours, kept = False, []
        for line in got.splitlines():
            marker = re.match(r'# \d+ "([^"]*)"', line)
            if marker:
                ours = any(marker.group(1).endswith(f"include/reshard/{name}.h") for name in HEADERS)
            elif ours:
                kept.append(line)
        return "\n".join(kept)

    def read_macros(self, text):
        for name, value in re.findall(r"^#define (RSH_\w+)[ \t]+(\d+)[ \t]*$", text, re.M):
            self.macros[name] = int(value)
        for name, values in re.findall(r"^#define (RSH_\w+_INIT)\s+\{(.*?)\}", text, re.M):
            self.starts[name[: -len("_INIT")].lower()] = [v.strip() for v in values.split(",")]

    def read_types(self):
        for name, body in re.findall(r"typedef enum (\w+) \{(.*?)\} \1;", self.text, re.S):
            value = -1
            for item in filter(None, (i.strip() for i in body.split(","))):
                constant, _, given = (p.strip() for p in item.partition("="))
                value = int(given, 0) if given else value + 1
                self.enums.setdefault(name, []).append((constant, value))
        for name in re.findall(r"typedef \w[^;{}]*?\(\*(\w+)\)\(", self.text):
            self.pointers.add(name)
        for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", self.text, re.S):
            self.structs[name] = [m for line in body.split(";") for m in members(line)]
        for name in re.findall(r"typedef (?:struct|union) (\w+) \1;", self.text):
            self.opaque.add(name)

    def read_functions(self):
        for declaration in re.findall(r"__attribute__\s*\(\(visibility\(\"default\"\)\)\)\s*([^;{]*?);", self.text):
            found = re.match(r"([^()]*?)(\w+)\s*\((.*)\)$", " ".join(declaration.split()))
            if found:
                self.functions.append((found.group(2), found.group(1).strip(), split_parameters(found.group(3))))


def split_parameters(text):
    """At commas that are not inside the parameters of a callback."""
    if text.strip() == "void":
        return []
    return [p.strip() for p in re.findall(r"(?:[^,()]|\((?:[^()]|\([^()]*\))*\))+", text)]


def members(line):
    """(type, name, array or '') of each member of one declaration; a callback is ('', name, '')."""
    line = " ".join(line.split())
    if not line:
        return []
    called = re.search(r"\(\*(\w+)\)\(", line)
    if called:
        return [("()", called.group(1), "")]
    first, *rest = line.split(",")
    base, name = re.match(r"(.*?[\s*])(\w+(?:\[\w+\])?)$", first.strip()).groups()
    names = [name] + [r.strip() for r in rest]
    plain = base.strip().rstrip("*").strip()
    out = []
    for index, n in enumerate(names):
        stars = base.count("*") if index == 0 else n.count("*")
        bare_name, _, array = re.sub(r"\bconst\b|[*\s]", "", n).partition("[")
        out.append((plain + " " + "*" * stars if stars else plain, bare_name, array.rstrip("]")))
    return out


class Writer:
    def __init__(self, headers):
        self.h, self.lines, self.left_out = headers, [], []

    def size(self, array):
        return self.h.macros[array] if array in self.h.macros else int(array)

    # ---- constants and types ----

    def constants(self):
        functions = {name.lower() for name, _, _ in self.h.functions}  # Fortran does not tell A from a
        for name, value in sorted(self.h.macros.items()):
            if name.lower() in functions:
                self.left_out.append(f"{name} ({value}): there is a function of that name")
                continue
            self.lines.append(f"integer(c_int), parameter :: {name} = {value}")
        for name, items in self.h.enums.items():
            self.lines += ["", f"! {name}"]
            self.lines += [f"integer(c_int), parameter :: {constant} = {value}" for constant, value in items]

    def member_type(self, kind):
        if kind == "()" or kind in self.h.pointers:
            return "type(c_funptr)"
        if "*" in kind:
            return "type(c_ptr)"
        kind = kind.removeprefix("const ").strip()
        if kind in NUMBERS:
            return NUMBERS[kind]
        if kind in self.h.enums:
            return "integer(c_int)"
        if kind in self.h.structs:
            return f"type({kind})"
        raise Unknown(kind)

    def measure(self, kind):
        """(bytes, alignment) as the ABIs of 64-bit Linux have them."""
        if kind == "()" or "*" in kind or kind in self.h.pointers:
            return 8, 8
        kind = kind.removeprefix("const ").strip()
        if kind in BYTES:
            return BYTES[kind], BYTES[kind]
        if kind in self.h.enums:
            return 4, 4
        if kind not in self.h.structs:
            raise Unknown(kind)
        at, widest = 0, 1
        for member, _, array in self.h.structs[kind]:
            bytes_, align = self.measure(member)
            at = -(-at // align) * align + bytes_ * (self.size(array) if array else 1)
            widest = max(widest, align)
        return -(-at // widest) * widest, widest

    def start(self, kind, value, struct):
        """The default of a member of an options struct, from its _INIT macro."""
        if value.startswith("sizeof"):
            return f"{self.measure(struct)[0]}_c_size_t"
        fortran = self.member_type(kind)
        if fortran == "logical(c_bool)":
            return ".false._c_bool" if value in ("0", "false") else ".true._c_bool"
        if fortran in ("type(c_ptr)", "type(c_funptr)"):
            return "c_null_ptr" if fortran == "type(c_ptr)" else "c_null_funptr"
        constant = {c: v for items in self.h.enums.values() for c, v in items}.get(value, value)
        return f"{constant}_{fortran.split('(')[1].rstrip(')')}"

    def struct(self, name):
        starts = self.h.starts.get(name, [])
        lines = [f"type, bind(C) :: {name}"]
        for index, (kind, member, array) in enumerate(self.h.structs[name]):
            line = f"  {self.member_type(kind)} :: {member}" + (f"({self.size(array)})" if array else "")
            if starts and not array and not self.member_type(kind).startswith("type(rsh"):
                line += " = " + self.start(kind, starts[index] if index < len(starts) else "0", name)
            lines.append(line)
        return lines + [f"end type {name}"]

    def types(self):
        for name in self.h.structs:
            try:
                self.lines += [""] + self.struct(name)
            except Unknown as kind:
                self.left_out.append(f"{name}: has a {kind}")

    # ---- functions ----

    def argument(self, function, text):
        """(name, declaration) of a parameter."""
        called = re.search(r"\(\*(\w+)\)", text)
        if called:
            return called.group(1), f"type(c_funptr), value :: {called.group(1)}"
        found = re.match(r"(.*?[\s*])(\w+)(\[\w*\])?$", text)
        kind, name, array = found.group(1).strip(), found.group(2), found.group(3)
        stars, const = kind.count("*"), kind.startswith("const ")
        plain = kind.replace("*", " ").replace("const", " ").strip()
        if stars == 0 and plain in self.h.pointers:
            return name, f"type(c_funptr), value :: {name}"
        if stars == 0 and not array:
            return name, f"{self.member_type(plain)}, value :: {name}"
        if plain == "void" or (stars == 1 and not const and plain in self.h.opaque and plain not in self.h.structs):
            return name, f"type(c_ptr), value :: {name}" if stars == 1 else f"type(c_ptr), intent(inout) :: {name}"
        if stars == 1 and const and plain not in NUMBERS and plain not in self.h.enums:
            return name, f"type(c_ptr), value :: {name}"
        if stars == 2:
            alone = kind.count("const") < 2 and (name == "out" and not MANY.search(function) or plain == "char")
            return name, f"type(c_ptr), intent({'in' if kind.count('const') > 1 else 'inout'}) :: {name}{'' if alone else '(*)'}"
        if plain in self.h.structs:
            return name, f"type({plain}), intent(inout) :: {name}"
        one = not const and not array and name not in LISTS
        return name, f"{self.member_type(plain)}, intent({'in' if const else 'inout'}) :: {name}{'' if one else '(*)'}"

    def result(self, kind):
        if kind.endswith("*"):
            return "type(c_ptr)"
        return self.member_type(kind)

    def function(self, name, kind, parameters):
        arguments = [self.argument(name, p) for p in parameters]
        used = [n for n in self.h.structs if any(f"type({n})" in d for _, d in arguments)]
        listed = ", ".join(n for n, _ in arguments)
        head = f"subroutine {name}({listed}) &" if kind == "void" else f"function {name}({listed}) &"
        lines = wrap(f"  {head}")
        lines.append(f'      bind(C, name="{name}")' + ("" if kind == "void" else " result(answer)"))
        lines.append("    import")
        lines += [f"    {declaration}" for _, declaration in arguments]
        if kind != "void":
            lines.append(f"    {self.result(kind)} :: answer")
        if any(f"{n}: has" in left for left in self.left_out for n in used):
            raise Unknown(used[0])
        return lines + [f"  end {'subroutine' if kind == 'void' else 'function'} {name}"]

    def interfaces(self):
        self.lines += ["", "interface"]
        for name, kind, parameters in self.h.functions:
            try:
                self.lines += self.function(name, kind, parameters)
            except Unknown as missing:
                self.left_out.append(f"{name}: uses {missing}")
        self.lines.append("end interface")

    def whole(self):
        self.constants()
        self.types()
        self.interfaces()
        notes = ["!", "! Left out:"] + [f"!   {left}" for left in self.left_out] if self.left_out else []
        return HEAD + "".join(line + "\n" for line in notes) + "\n" + "".join(line + "\n" for line in self.lines)


def wrap(line):
    """A long line of Fortran, continued after commas."""
    out = []
    while len(line) > 110:
        cut = line.rindex(",", 0, 108) + 1
        out.append(line[:cut] + " &")
        line = "      " + line[cut:].lstrip()
    return out + [line]


def asserts(headers, writer):
    yield "".join(f"#include <reshard/{name}.h>\n" for name in HEADERS)
    for name in headers.structs:
        try:
            writer.struct(name)
        except Unknown:
            continue
        yield f'_Static_assert(sizeof({name}) == {writer.measure(name)[0]}, "{name}: Fortran assumes another size");'


def main(what="", root="."):
    path = os.path.join(root, "fortran/reshard.f03")
    headers = Headers(root)
    writer = Writer(headers)
    if what == "asserts":
        print("\n".join(asserts(headers, writer)))
        return 0
    text = writer.whole()
    if what == "write":
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return 0
    if what != "check":
        print(__doc__, file=sys.stderr)
        return 2
    there = read(root, "fortran/reshard.f03") if os.path.exists(path) else ""
    return finish([] if there == text else ["fortran/reshard.f03 is not current: run tools/fortran.py write"])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
