"""Manual: writes the reference manual from the comments of the public headers.

    manual.py ROOT OUT

OUT/man3 gets one page for each documented group of functions, with an alias for every further function of the group, and
one page for each header.  OUT/manual.html is the whole reference on one page.  A group is a comment and the declarations
that follow it without a blank line.
"""
import html
import os
import re
import sys
import textwrap

import c_text

COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
FUNCTION = re.compile(r"\b(rsh_\w+)\s*\((?!\s*\*)")
NAME = re.compile(r"\b(rsh_\w+|RSH_[A-Z0-9_]+)\b")
GUARD = re.compile(r"^\s*#\s*(ifndef|define|endif|ifdef|include|else|if)\b|^\s*(extern \"C\" \{|\})\s*$")


class Group:
    """A comment and the declarations below it."""

    def __init__(self, words, code):
        self.words, self.code = words, code
        self.functions = [m for line in declarations(code) for m in declared_function(line)]
        self.types = declared_types(code)

    def names(self):
        return self.functions + self.types


class Header:
    def __init__(self, path, about, groups):
        self.path, self.about, self.groups = path, about, groups  # path as in #include <path>
        self.page = path[:-2].replace("/", "_")


def declarations(code):
    bare = re.sub(r"^#.*(?:\\\n.*)*$", "", c_text.bare(code), flags=re.M)
    return [d.strip() for d in bare.split(";") if d.strip()]


def declared_function(text):
    if not text.startswith(("RSH_API", "static inline")):
        return []
    found = FUNCTION.search(text)
    return [found.group(1)] if found else []


def declared_types(code):
    bare = c_text.bare(code)
    names = re.findall(r"^(?:typedef )?(?:struct|enum|union) (rsh_\w+) \{", bare, re.M)
    names += re.findall(r"^typedef (?:struct|enum) \w+ (rsh_\w+);", bare, re.M)
    names += re.findall(r"^typedef [^;{}]*\(\*(rsh_\w+)\)", bare, re.M)
    names += re.findall(r"^#define (RSH_\w+)", bare, re.M)
    return list(dict.fromkeys(names))


def plain(comment):
    """The words of a comment without its frame; blank lines separate paragraphs."""
    lines = [re.sub(r"^\s*\* ?", "", line).rstrip() for line in comment.strip().split("\n")]
    return "\n".join(lines).strip()


def blocks(text):
    """Pairs of comment and code, in order.  Only comments at the start of a line open a block."""
    parts = re.split(r"^(?=/\*)|\n[ \t]*\n", text, flags=re.M)
    for part in parts:
        if not part.strip():
            continue
        match = COMMENT.match(part) if part.startswith("/*") else None
        yield (plain(match.group(1)), part[match.end():]) if match else ("", part)


def split_text(words):
    """Parts of a comment, in order: ("code", text), ("list", items) or ("text", text)."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", words):
        lead, *items = re.split(r"^- ", paragraph, flags=re.M)
        if any(line.startswith("    ") for line in paragraph.split("\n")):
            if parts and parts[-1][0] == "code":
                parts[-1] = ("code", parts[-1][1] + "\n\n" + paragraph)
            else:
                parts.append(("code", paragraph))
            continue
        if lead.strip():
            parts.append(("text", " ".join(lead.split())))
        if items:
            parts.append(("list", [" ".join(item.split()) for item in items]))
    return parts


def code_only(code):
    kept, in_macro = [], False
    for line in code.strip("\n").split("\n"):
        macro = line.startswith("#define RSH_") or in_macro
        in_macro = macro and line.endswith("\\")
        if macro or not GUARD.match(line) or line.strip() == "}" and kept and "{" in "\n".join(kept):
            kept.append(line)
    return "\n".join(kept).strip("\n")


def read_header(root, name):
    text = c_text.read(root, os.path.join("include", name))
    text = re.sub(r"^#define RESHARD_\w+_H\s*$", "", text, flags=re.M)
    about, groups, words = None, [], ""
    for comment, code in blocks(text):
        includes = "\n".join(re.findall(r"^#include <reshard/.*>$", code, re.M))
        code = code_only(code)
        if about is None and comment:
            about, comment = comment, "" if not code else comment
        words = comment or ("" if not code else words)
        if code:
            groups.append(Group(comment, code))
        elif comment and comment != about:
            groups.append(Group(comment, includes))  # what an umbrella header includes, and for whom
    return Header(name, about or "", groups)


def read_headers(root):
    """Those that <reshard.h> includes first, in its order; then the others by name."""
    include = os.path.join(root, "include")
    first = re.findall(r"^#include <(reshard[^>]*)>", c_text.read(include, "reshard.h"), re.M)
    names = ["reshard.h"] + first + c_text.files(include, ends=(".h",))
    return [read_header(root, name) for name in dict.fromkeys(names)]


# ---- man pages


SECTION = re.compile(r"^-+ (.*?) -+$")


def prototypes(code):
    return code.replace("RSH_API ", "")


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line[:1] in ".'" else line for line in text.split("\n"))


def summary(words):
    words = re.sub(r"^\w+: ", "", words)  # "Status: what every fallible call returns"
    first = re.split(r"(?<=[.:;])\s", " ".join(words.split()), maxsplit=1)[0].rstrip(".:;")
    return textwrap.shorten(first or "part of the reshard library", 100, placeholder="...")


def man_page(title, name, names, header, body, code, version, see):
    lines = [f'.TH {title} 3 "" "reshard {version}" "reshard manual"', ".SH NAME",
             f"{roff(', '.join(names))} \\- {roff(name)}", ".SH SYNOPSIS", ".nf", f"#include <{roff(header.path)}>"]
    if code:
        lines += ["", roff(code)]
    lines += [".fi", ".SH DESCRIPTION"]
    for kind, text in split_text(body or "See the header."):
        if kind == "list":
            lines += [line for item in text for line in (".IP \\(bu 2", roff(item))]
        else:
            lines += [".PP"] + ([".nf", roff(text), ".fi"] if kind == "code" else [roff(text)])
    lines += [".SH SEE ALSO", roff(", ".join(see)), ""]
    return "\n".join(lines)


def write_man(headers, folder, version):
    os.makedirs(folder, exist_ok=True)
    written = {}
    for header in headers:
        pages = []
        for group in header.groups:
            if not group.functions:
                continue
            title = group.functions[0]
            see = [f"{header.page}(3)"]
            text = man_page(title, summary(group.words), group.functions, header, group.words,
                            prototypes(group.code), version, see)
            written[title] = text
            pages.append(title)
            for alias in group.functions[1:]:
                written[alias] = f".so man3/{title}.3\n"
        types = "\n\n".join(g.code for g in header.groups if g.code and not g.functions)
        see = [f"{page}(3)" for page in pages] or ["reshard(1)"]
        written[header.page] = man_page(header.page, summary(header.about), [header.page], header, header.about, types,
                                        version, see)
    for name, text in written.items():
        with open(os.path.join(folder, name + ".3"), "w", encoding="utf-8") as f:
            f.write(text)
    return written


# ---- one page of HTML

STYLE = """
:root{color-scheme:light dark;--line:#8884;--dim:#777}
body{font:16px/1.5 system-ui,sans-serif;margin:0;display:grid;grid-template-columns:17rem minmax(0,1fr)}
nav{position:sticky;top:0;height:100vh;overflow:auto;border-right:1px solid var(--line);padding:1rem;font-size:.85rem}
nav a{display:block;text-decoration:none}nav details a{padding-left:1rem}
main{padding:1rem 2rem;max-width:60rem}pre{overflow:auto;border:1px solid var(--line);padding:.6rem;font-size:.85rem}
h2{border-top:2px solid var(--line);padding-top:1rem;margin-top:3rem}.group{margin:1.5rem 0}
.words{white-space:pre-line}:target{outline:2px solid #d80}
@media(max-width:50rem){body{display:block}nav{position:static;height:auto}}
"""


def linked(text, known):
    def link(match):
        name = match.group()
        return f'<a href="#{name}">{name}</a>' if name in known else name

    return NAME.sub(link, html.escape(text, quote=False))


def paragraphs(words, known):
    out = []
    for kind, text in split_text(words):
        if kind == "code":
            out.append(f"<pre>{linked(text, known)}</pre>")
        elif kind == "list":
            out.append("<ul>" + "".join(f"<li>{linked(item, known)}</li>" for item in text) + "</ul>")
        else:
            out.append(f"<p>{linked(text, known)}</p>")
    return "\n".join(out)


def write_html(headers, path, version):
    known = {name for h in headers for g in h.groups for name in g.names()}
    nav, body = [], []
    for header in headers:
        names = [n for g in header.groups for n in g.functions]
        nav.append(f'<details><summary><a href="#{header.page}" style="display:inline">&lt;{header.path}&gt;</a></summary>'
                   + "".join(f'<a href="#{n}">{n}</a>' for n in names) + "</details>")
        body.append(f'<h2 id="{header.page}">&lt;{header.path}&gt;</h2>\n{paragraphs(header.about, known)}')
        for group in header.groups:
            section = SECTION.match(group.words)
            if section:
                body.append(f"<h3>{html.escape(section.group(1))}</h3>")
                continue
            anchors = "".join(f'<a id="{name}"></a>' for name in group.names())
            words = paragraphs(group.words, known) if group.words else ""
            code = f"<pre>{linked(prototypes(group.code), known)}</pre>" if group.code else ""
            body.append(f'<div class="group">{anchors}{code}{words}</div>')
    page = ('<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>reshard {version}: reference manual</title><style>{STYLE}</style>\n<nav><b>reshard {version}</b>"
            + "\n".join(nav) + f"</nav>\n<main><h1>reshard {version}: reference manual</h1>\n"
            + "<p>Made from the public headers. Functions are listed by header, in the order in which to read them.</p>\n"
            + "\n".join(body) + "</main></html>\n")
    with open(path, "w", encoding="utf-8") as f:
        f.write(page)


def check(headers, root, written):
    """Every public function has a page."""
    missing = []
    for header in headers:
        bare = c_text.bare(c_text.read(root, os.path.join("include", header.path)))
        for name in re.findall(r"\bRSH_API\b[^;]*?\b(rsh_\w+)\s*\(", bare):
            if name not in written:
                missing.append(f"{header.path}: {name} has no manual page")
    return missing


def main(root, out):
    version = c_text.read(root, "VERSION").strip()
    headers = read_headers(root)
    written = write_man(headers, os.path.join(out, "man3"), version)
    write_html(headers, os.path.join(out, "manual.html"), version)
    return c_text.finish(check(headers, root, written))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
