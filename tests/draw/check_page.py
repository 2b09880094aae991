#!/usr/bin/env python3
"""Page: the pages that the command draws, in a real Chromium, by mouse and keyboard.

    check_page.py COMMAND [--library FILE] [--shots FOLDER]

Skipped if there is no Chromium (see skips.py).  --library also tests what the shared library draws for a single layout,
and a page made from its scenes and its script.  --shots also writes pictures of every page: light, dark, and 400 pixels wide.
"""
import argparse
import ctypes
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import chromium
import skips

PAGES = {
    "two_dims": ("f32[4096/tp, 11008] on dp=2,tp=4", "f32[4096/dp, 11008/tp] on dp=2,tp=4"),
    "three_dims": ("f32[64/x, 48/y, 32/z] on x=4,y=3,z=2", "f32[64, 48/(x,z), 32/y] on x=4,y=3,z=2"),
    "cyclic": ("f32[8192, 8192/x:64] on x=16", "f32[8192/x, 8192] on x=16"),
    "partial": ("f32[4096, 4096/dp] on dp=2,tp=4 sum(tp)", "f32[4096, 4096/dp] on dp=2,tp=4"),
    "grid": ("f32[8192/x:128, 8192/y:128] on x=2,y=2", "f32[8192/x:96, 8192/y:96] on x=2,y=2"),
    "chain": ("f32[1024, 1024] on tp=8 sum(tp)", "f32[1024, 1024] on tp=8"),
    "by_node": ("f32[1024, 1024] on tp=8 sum(tp)", "f32[1024/tp, 1024] on tp=8"),
    "tie": ("f32[258/x, 32768] on x=2", "f32[258, 32768/x] on x=2"),
    "boxes": ("f32[8, 8] boxes 0:[0:4,0:5] 1,5:[4:8,0:5] 2:[0:3,5:8] 3:[3:8,5:8]", "f32[8, 8/x~] on x=3"),
    "many": ("f32[4096/tp, 4096] on tp=4096", "f32[4096, 4096/tp] on tp=4096"),
    "mesh_of_4096": ("f32[4096/x, 4096/y] on x=64,y=64", "f32[4096/y, 4096/x] on x=64,y=64"),
    "one": ("f32[100]", "f32[100]"),
    "empty": ("f32[0, 4]", "f32[0/x, 4] on x=3"),
    "flat": ("f32[1000, 37]/dp on dp=4", "f32[1000/tp, 37] on tp=3@4-6"),
    "many_shuffled": ("f32[65536/x, 65536] on x=65536", "f32[65536, 65536/y] on y=65536"),
    "mesh_of_65536": ("f32[4096/x, 4096/y, 64/z] on x=64,y=64,z=16", "f32[4096/y, 4096/x, 64/z:1] on x=64,y=64,z=16"),
}
OPTIONS = {"chain": ["--ranks-per-node", "4"], "by_node": ["--ranks-per-node", "4", "--by-node"]}
SIDE = 256


def many_boxes():
    """65,536 boxes of different sizes: rank r has rows of r / SIDE and columns of r % SIDE."""
    at = lambda i: i * (i + 7) // 2
    boxes = (f"{i * SIDE + k}:[{at(i)}:{at(i + 1)},{at(k)}:{at(k + 1)}]" for i in range(SIDE) for k in range(SIDE))
    return f"f32[{at(SIDE)}, {at(SIDE)}] boxes " + " ".join(boxes), f"f32[{at(SIDE)}/x, {at(SIDE)}] on x=65536"


PAGES["many_boxes"] = many_boxes()
MOST_BYTES = 2_000_000
checked = 0


def check(what, ok, seen=""):
    global checked
    checked += 1
    if not ok:
        raise AssertionError(f"{what}{': ' if seen != '' else ''}{seen}")


def draw_pages(command, folder):
    for name, (source, destination) in PAGES.items():
        path, files = os.path.join(folder, name + ".html"), [os.path.join(folder, name + end) for end in (".from", ".to")]
        for file, text in zip(files, (source, destination)):
            with open(file, "w", encoding="ascii") as out:
                out.write(text)
        subprocess.run([command, "explain", "--html", path, *OPTIONS.get(name, []), "@" + files[0], "@" + files[1]], check=True, stdout=subprocess.DEVNULL)
        check(f"{name} has at most {MOST_BYTES} bytes", os.path.getsize(path) <= MOST_BYTES, os.path.getsize(path))


def draw_layout(library, text, form):
    """What the library draws of one layout; 2 is HTML, 4 is JSON."""
    parts, layout = [], ctypes.c_void_p()
    write = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)

    class Sink(ctypes.Structure):
        _fields_ = [("write", write), ("ctx", ctypes.c_void_p)]
    sink = Sink(write(lambda _, at, n: parts.append(ctypes.string_at(at, n)) or 0), None)
    check("a layout", library.rsh_layout_parse(text.encode(), ctypes.byref(layout)) == 0)
    check("a picture", library.rsh_draw_layout(layout, form, ctypes.byref(sink)) == 0)
    library.rsh_layout_free(layout)
    return b"".join(parts).decode()


def draw_by_library(path, folder):
    """single.html: one layout; own.html: a page of one's own with two scenes."""
    library = ctypes.CDLL(os.path.realpath(path))
    library.rsh_draw_script.restype = library.rsh_draw_style.restype = ctypes.c_char_p
    library.rsh_layout_free.argtypes = [ctypes.c_void_p]
    with open(os.path.join(folder, "single.html"), "w", encoding="utf-8") as file:
        file.write(draw_layout(library, "f32[64/x, 48/y, 32/z] on x=4,y=3,z=2", 2))
    scenes = [draw_layout(library, text, 4) for text in ("f32[8/x] on x=4", "f32[8, 8] on x=2 sum(x)")]
    with open(os.path.join(folder, "own.html"), "w", encoding="utf-8") as file:
        file.write(f"<!doctype html><meta charset=utf-8><link rel=icon href='data:,'><style>{library.rsh_draw_style().decode()}</style>"
                   f"<div id=a></div><div id=b></div><script>{library.rsh_draw_script().decode()}\n"
                   f"reshard.draw(document.getElementById('a'), {scenes[0]}); reshard.draw(document.getElementById('b'), {scenes[1]});</script>")


def open_page(browser, folder, name):
    browser.open("file://" + os.path.join(folder, name + ".html"))


STORY = "document.querySelector('.story').innerText"
LIT = "document.querySelectorAll('.panels .cell.lit').length"
SHOWN = "document.querySelectorAll('.panel .origin:not(.absent)').length"


# ---- every page ----

def every_page_is_drawn_and_fits_400_pixels(browser, folder):
    for name in PAGES:
        browser.resize(1120)
        open_page(browser, folder, name)
        check(f"{name} has its panels", browser.value("document.querySelectorAll('svg.panel').length") == 2)
        check(f"{name} has totals", browser.value("document.querySelectorAll('.totals tr').length") > 8)
        cells = browser.value("document.querySelectorAll('.panels .cell').length")
        check(f"{name} has cells", (cells > 0) == (name != "empty"), cells)
        browser.resize(400)
        width = browser.value("document.documentElement.scrollWidth")
        check(f"{name} is no wider than 400 pixels", width <= 400, width)
        small = browser.value("Math.min(99, ...[...document.querySelectorAll('.panel .tick, .panel .label')].map(e => e.getBoundingClientRect().height))")
        check(f"the letters of {name} are not too small", small >= 8, small)
    browser.resize(1120)


def no_id_is_there_twice(browser, folder):
    open_page(browser, folder, "two_dims")
    ids = browser.value("[...document.querySelectorAll('[id]')].map(e => e.id)")
    check("ids are unique", len(ids) == len(set(ids)), ids)


# ---- mouse ----

def hovering_tells_what_a_rank_does(browser, folder):
    open_page(browser, folder, "two_dims")
    check("nothing is lit at first", browser.value(LIT) == 0)
    browser.point("[data-side='0'][data-held='1']")
    story = browser.value(STORY)
    for word in ("rank 1 at dp=0 tp=1", "sends 16.1 MiB to 0, 2, 3", "receives", "keeps 10.8 MiB"):
        check("the story of rank 1", word in story, story)
    check("its own block is lit, and what it sends and gets", browser.value(LIT) > 2)
    browser.mouse("mouseMoved", 3, 3)
    check("it ends with the hover", browser.value(LIT) == 0)


def clicking_pins_and_clicking_again_lets_go(browser, folder):
    open_page(browser, folder, "two_dims")
    browser.click("[data-side='0'][data-held='2']")
    browser.mouse("mouseMoved", 3, 3)
    check("the pin outlives the hover", "rank 2" in browser.value(STORY) and "pinned" in browser.value(STORY), browser.value(STORY))
    check("the matrix shows the pinned rank", browser.value("document.querySelectorAll('.matrix .cell.lit').length") == 15)
    browser.click("[data-side='0'][data-held='2']")
    check("a second click lets go", "pinned" not in browser.value(STORY))


def labels_are_no_holes_in_their_blocks(browser, folder):
    open_page(browser, folder, "partial")  # its labels are centred
    for side, kind in ((0, "held"), (1, "origin")):
        browser.click(f"[data-side='{side}'][data-{kind}='0']")
        check("a click on a label pins its block", "pinned" in browser.value(STORY), browser.value(STORY))
        browser.click(f"[data-side='{side}'][data-{kind}='0']")


def destinations_say_where_they_come_from(browser, folder):
    open_page(browser, folder, "two_dims")
    scene = browser.value("JSON.parse(document.getElementById('scene').textContent)")
    kinds = {}
    for o in scene["origins"][0]:
        kinds[o[4]] = kinds.get(o[4], 0) + 1
    check("four blocks stay, twelve move", kinds == {1: 4, 2: 12}, kinds)
    browser.point(".origin.moves")
    check("the tip names source and destination", re.search(r"\d to \d", browser.value(STORY)), browser.value(STORY))


def the_matrix_tells_what_stays_from_what_moves(browser, folder):
    open_page(browser, folder, "two_dims")
    count = lambda kind: browser.value(f"document.querySelectorAll('.matrix .{kind}').length")
    check("ranks that keep something", count("kept") == 4, count("kept"))
    check("pairs that exchange something", count("sent") == 24, count("sent"))
    check("numbers stand in the cells", browser.value("document.querySelectorAll('.matrix .amount').length") == 28)
    check("numbers have a unit", browser.value("document.querySelector('.tables section:last-child h2').innerText") == "MiB from rank to rank")
    check("there is a scale", "5.4 MiB" in browser.value("document.querySelector('.scale').innerText"))
    browser.point(".matrix .sent")
    check("a cell of the matrix lights its rank", browser.value(LIT) > 0)


def a_heading_says_how_much_moves(browser, folder):
    for name, sentence in (("two_dims", "75 % of the bytes move: 129.0 MiB, the least possible."),
                           ("chain", "93 % of the bytes move: 56.0 MiB, the least possible, in 3 stages."),
                           ("one", "Nothing moves: every rank already holds what it needs.")):
        open_page(browser, folder, name)
        said = browser.value("document.querySelector('h1').innerText")
        check(f"the heading of {name}", said == sentence, said)


def numbers_are_those_of_the_text(browser, folder):
    """16.125 MiB is a tie between 16.1 and 16.2."""
    open_page(browser, folder, "tie")
    rows = browser.value("[...document.querySelectorAll('.totals tr')].map(r => r.innerText)")
    check("a tie is rounded as in text", any("16,908,288 B" in row and "16.1 MiB" in row for row in rows), rows)


def labels_leave_the_colours_of_small_blocks(browser, folder):
    open_page(browser, folder, "grid")
    labels = browser.value("[...document.querySelectorAll('.panel')].map(p => p.querySelectorAll('.plate[data-holders]').length)")
    check("each rank is named once on the right", labels == [0, 4], labels)
    notes = browser.value("document.querySelector('.notes').innerText")
    check("what repeats", "dim 0 repeats every 768 indices; indices 768 to 7391 are not drawn" in notes, notes)


def ticks_are_at_the_cuts_of_their_own_side(browser, folder):
    open_page(browser, folder, "two_dims")
    ticks = browser.value("[...document.querySelectorAll('.panel')].map(p => [...p.querySelectorAll('.tick')].map(t => t.textContent).join(' '))")
    check("ticks", ticks == ["0 1024 2048 3072 4096 0 11008", "0 2048 4096 0 2752 5504 8256 11008"], ticks)


# ---- keyboard ----

def keys_choose_and_pin(browser, folder):
    open_page(browser, folder, "two_dims")
    browser.value("document.querySelector('.panels').focus()")
    browser.key("ArrowRight")
    check("the first arrow chooses rank 0", "rank 0" in browser.value(STORY))
    browser.key("ArrowRight")
    browser.key("ArrowRight")
    check("then the next", "rank 2" in browser.value(STORY))
    browser.key("Enter")
    check("Enter pins", "pinned" in browser.value(STORY))
    browser.key("End")
    check("End goes to the last", "rank 7 at dp=1 tp=3" in browser.value(STORY), browser.value(STORY))
    browser.key("ArrowLeft")
    check("the pin moves along", "rank 6" in browser.value(STORY) and "pinned" in browser.value(STORY))
    browser.key("Escape")
    check("Escape lets go", browser.value(LIT) == 0 and "Point at" in browser.value(STORY))


def type_rank(browser, digits):
    browser.value(f"(() => {{ const e = document.querySelector('input.rank'); e.value = '{digits}'; e.dispatchEvent(new Event('input')); }})()")


def a_typed_number_pins_a_rank(browser, folder):
    open_page(browser, folder, "many")
    browser.value("document.querySelector('input.rank').focus()")
    for digit in "4094":
        browser.key(digit)
    check("a rank that is drawn", "rank 4094 at tp=4094" in browser.value(STORY) and browser.value(LIT) > 0, browser.value(STORY))
    type_rank(browser, "77")
    story = browser.value(STORY)
    for word in ("rank 77 at tp=77", "before 16.0 KiB", "after 16.0 KiB", "sends 16.0 KiB", "receives 16.0 KiB", "keeps 4 B"):
        check("a rank that is not drawn", word in story, story)
    type_rank(browser, "4096")
    check("a rank that is not there", "not a rank of either layout" in browser.value(STORY), browser.value(STORY))


def any_of_65536_ranks_has_its_sums(browser, folder):
    open_page(browser, folder, "many_boxes")
    for rank in (0, 1, 255, 256, 12345, 40000, 65535):
        type_rank(browser, str(rank))
        held, story = 4 * (rank // SIDE + 4) * (rank % SIDE + 4), browser.value(STORY)
        said = f"{held / 1024:.1f} KiB" if held >= 1024 else f"{held} B"
        check(f"what rank {rank} holds", f"before {said}" in story and "sends" in story and "keeps" in story, (said, story))


# ---- slices ----

def the_slider_goes_through_a_third_dim(browser, folder):
    open_page(browser, folder, "three_dims")
    labels = "[...document.querySelectorAll('.panel')][0].textContent"
    first, said = browser.value(labels), browser.value("document.querySelector('.slices').nextSibling.textContent")
    check("the slider says where it is", said == "indices 0 to 10", said)
    browser.value("document.querySelector('.slices').focus()")
    browser.key("ArrowRight")
    browser.key("ArrowRight")
    browser.key("ArrowRight")
    said = browser.value("document.querySelector('.slices').nextSibling.textContent")
    check("it goes to the last slice", said == "indices 22 to 31", said)
    check("which other ranks hold", browser.value(labels) != first)
    browser.value("document.querySelector('.panels').focus()")
    for _ in range(3):
        browser.key("PageDown")
    check("PageDown goes back", browser.value(labels) == first)


# ---- play ----

def set_time(browser, time):
    """Of the player, in thousandths of a step."""
    browser.value(f"(() => {{ const e = document.querySelector('.time'); e.value = {time}; e.dispatchEvent(new Event('input')); }})()")


def blocks_travel_stage_by_stage(browser, folder):
    for name, stages in (("two_dims", ["what stays", "what moves"]), ("partial", ["stage 1 of 2", "stage 2 of 2"])):
        open_page(browser, folder, name)
        whole, captions, counts = browser.value(SHOWN), [], []
        for time in range(50, 1000 * len(stages), 100):
            set_time(browser, time)
            caption = browser.value("document.querySelector('.time').nextSibling.textContent")
            captions += [caption] if caption not in captions else []
            counts.append(browser.value(SHOWN))
        check(f"{name} has its stages", captions == stages, captions)
        check(f"{name} arrives bit by bit", counts == sorted(counts) and counts[0] < whole, counts)
        set_time(browser, 1000 * len(stages))
        check(f"all of {name} is there in the end", browser.value(SHOWN) == whole)


def a_plan_of_several_stages_plays_them(browser, folder):
    words = "[...document.querySelectorAll('.steps li')].map(e => e.innerText)"
    now = "[...document.querySelectorAll('.steps li')].map(e => e.hasAttribute('aria-current')).indexOf(true)"
    title, amounts = "document.querySelector('.tables section:last-child h2').innerText", "document.querySelectorAll('.matrix .sent').length"
    for name, stages in (("chain", ["each rank combines its slice: 28.0 MiB, 16.0 MiB of it between nodes",
                                    "each node takes the slices of other nodes once: 7.0 MiB, 4.0 MiB of it between nodes",
                                    "the ranks of a node exchange what they have: 21.0 MiB"]), ("by_node", None)):
        open_page(browser, folder, name)
        scene = browser.value("JSON.parse(document.getElementById('scene').textContent)")
        said = browser.value(words)
        check(f"{name} names its stages", len(said) == len(scene["stages"]) and all(s["what"] in text for s, text in zip(scene["stages"], said)), said)
        check(f"{name} says how many bytes", stages is None or said == [f"stage {i + 1} of 3 {s}" for i, s in enumerate(stages)], said)
        check(f"the stages of {name} add up", sum(s["moved"] for s in scene["stages"]) == scene["totals"]["moved"], scene["stages"])
        for r in scene["ranks"]:
            sums = {}
            for _, source, n in r["arrivals"]:
                sums[source] = sums.get(source, 0) + n
            check(f"what rank {r['rank']} of {name} receives in its stages is what it receives", sums == dict(r["from"]), (sums, r["from"]))
        check("no step is the current one", browser.value(now) == -1)
        whole = browser.value(amounts)
        for i in range(len(said)):
            set_time(browser, 1000 * i + 500)
            check(f"stage {i + 1} of {name} is marked", browser.value(now) == i, browser.value(now))
            check(f"the matrix shows stage {i + 1} of {name}", browser.value(title) == f"KiB from rank to rank in stage {i + 1}"
                  or browser.value(title) == f"MiB from rank to rank in stage {i + 1}", browser.value(title))
            pairs = sum(1 for r in scene["ranks"] for k, source, _ in r["arrivals"] if k == i and source != r["rank"])
            check(f"pairs of stage {i + 1} of {name}", browser.value(amounts) == pairs, (browser.value(amounts), pairs))
        set_time(browser, 1000 * len(said))
        check(f"in the end {name} shows all stages", browser.value(now) == -1 and browser.value(amounts) == whole)
    # In one call, since the stage may be over when the next one is answered.
    said = browser.value(f"(() => {{ document.querySelector('.steps button').click(); return [{now}, document.querySelector('button.play').textContent]; }})()")
    check("a click plays that stage", said[0] == 0 and "Pause" in said[1], said)
    browser.value("new Promise(done => { const look = () => document.querySelector('button.play').textContent.includes('Play') ? done(1) : requestAnimationFrame(look); look(); })")
    check("and stops at its end", browser.value(now) == 0, browser.value(now))


# Replaces the clock of a page, because a busy machine may be too slow: pass(n) advances it by n milliseconds and draws a frame.
CLOCK = """(() => {
    let now = 1000, frames = [];
    performance.now = () => now;
    window.requestAnimationFrame = frame => frames.push(frame);
    window.cancelAnimationFrame = () => { frames = []; };
    window.pass = n => { const due = frames; frames = []; now += n; due.forEach(frame => frame(now)); };
})()"""


def play_runs_and_pauses(browser, folder):
    open_page(browser, folder, "two_dims")
    browser.value(CLOCK)
    whole = browser.value(SHOWN)
    browser.click("button.play")
    check("the button offers to pause", "Pause" in browser.value("document.querySelector('button.play').textContent"))
    flying = "document.querySelector('.flight g:not(.absent)')"
    check("blocks set off", browser.value(f"(() => {{ let n = 0; while (!{flying} && n < 1000) {{ pass(20); n++; }} return n; }})()") < 1000)
    place = flying + ".getAttribute('transform')"
    before = browser.value(place)
    browser.value("pass(40)")
    check("blocks are under way", browser.value(SHOWN) < whole and browser.value(place) != before)
    browser.value("document.querySelector('.panels').focus()")
    browser.key("p")
    check("the key p pauses", "Play" in browser.value("document.querySelector('button.play').textContent"))
    at = browser.value("document.querySelector('.time').value")
    browser.value("pass(500)")
    check("time stands still", browser.value("document.querySelector('.time').value") == at)


# ---- by the library ----

def a_single_layout_has_a_page(browser, folder):
    open_page(browser, folder, "single")
    check("one panel", browser.value("document.querySelectorAll('svg.panel').length") == 1)
    check("nothing to play, and no totals", browser.value("document.querySelectorAll('.play, .totals, .matrix').length") == 0)
    browser.point("[data-held='1']")
    check("its story", re.search(r"rank \d+ at x=\d y=\d z=0.*holds 16.0 KiB", browser.value(STORY), re.S), browser.value(STORY))
    browser.value("document.querySelector('.slices').focus()")
    browser.key("ArrowRight")
    browser.point("[data-held='1']")
    check("its other half", "z=1" in browser.value(STORY), browser.value(STORY))


def scenes_can_be_drawn_in_a_page_of_ones_own(browser, folder):
    open_page(browser, folder, "own")
    check("both scenes", browser.value("document.querySelectorAll('svg.panel').length") == 2)
    check("contributions are hatched", browser.value("document.querySelectorAll('#b .hatch').length") == 1)
    browser.point("#a [data-held='2']")
    check("each has its own story", "rank 2" in browser.value("document.querySelector('#a .story').innerText")
          and "Point at" in browser.value("document.querySelector('#b .story').innerText"))


# ---- light and dark ----

def luminance(colour):
    parts = [int(x) / 255 for x in re.findall(r"\d+", colour)[:3]]
    r, g, b = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(browser, selector):
    ink, paper = browser.value(f"[getComputedStyle(document.querySelector('{selector}')).color, getComputedStyle(document.body).backgroundColor]")
    a, b = sorted((luminance(ink), luminance(paper)))
    return (b + 0.05) / (a + 0.05)


def dark_and_light_are_readable(browser, folder):
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        open_page(browser, folder, "two_dims")
        paper = lambda: luminance(browser.value("getComputedStyle(document.body).backgroundColor"))
        check(f"{scheme} is {scheme}", (paper() < 0.2) == (scheme == "dark"), paper())
        for selector in (".story", ".notes", ".legend", ".totals"):
            check(f"{selector} can be read in {scheme}", contrast(browser, selector) >= 4.5, contrast(browser, selector))
        browser.click("button.theme")
        check(f"the switch leaves {scheme}", (paper() < 0.2) == (scheme == "light"), paper())
    browser.prefer("light")


CHECKS = [every_page_is_drawn_and_fits_400_pixels, a_heading_says_how_much_moves, numbers_are_those_of_the_text,
          labels_leave_the_colours_of_small_blocks, ticks_are_at_the_cuts_of_their_own_side, no_id_is_there_twice, hovering_tells_what_a_rank_does,
          clicking_pins_and_clicking_again_lets_go, labels_are_no_holes_in_their_blocks, destinations_say_where_they_come_from, the_matrix_tells_what_stays_from_what_moves,
          keys_choose_and_pin, a_typed_number_pins_a_rank, any_of_65536_ranks_has_its_sums, the_slider_goes_through_a_third_dim, blocks_travel_stage_by_stage, a_plan_of_several_stages_plays_them,
          play_runs_and_pauses, dark_and_light_are_readable]


def take_shots(browser, folder, out):
    os.makedirs(out, exist_ok=True)
    for name in PAGES:
        for scheme, width in (("light", 1120), ("dark", 1120), ("light", 400)):
            browser.prefer(scheme)
            browser.resize(width)
            open_page(browser, folder, name)
            browser.resize(width, browser.value("document.documentElement.scrollHeight"))
            browser.screenshot(os.path.join(out, f"{name}_{scheme}_{width}.png"))
            if width > 400 and name not in ("empty", "one"):
                browser.click("[data-side='1'][data-origin]")
                browser.screenshot(os.path.join(out, f"{name}_{scheme}_pinned.png"))
                browser.key("Escape")
                set_time(browser, 1350)
                browser.screenshot(os.path.join(out, f"{name}_{scheme}_playing.png"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("--library")
    parser.add_argument("--shots")
    options = parser.parse_args()
    tests = CHECKS + ([a_single_layout_has_a_page, scenes_can_be_drawn_in_a_page_of_ones_own] if options.library else [])
    path = chromium.find()
    if not path:
        skips.skip("browser", "there is no Chromium (Debian package chromium)")
        return skips.exit_status(0)
    failed = 0
    with tempfile.TemporaryDirectory() as folder, chromium.Browser(path) as browser:
        draw_pages(os.path.realpath(options.command), folder)
        if options.library:
            draw_by_library(options.library, folder)
        browser.resize(1120)
        browser.prefer("light")
        for test in tests:
            try:
                test(browser, folder)
                check("the console is silent", not browser.complaints, browser.complaints)
            except (AssertionError, RuntimeError) as error:
                print(f"{test.__name__}: {error}")
                failed += 1
            browser.complaints.clear()
        if options.shots:
            take_shots(browser, folder, options.shots)
    print(f"{len(tests)} tests, {checked} checks, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
