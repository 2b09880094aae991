"""Checkpoints: lazy tensors, conversions, comparisons, sharded tensors to files and back."""
import os
import signal
import struct
import subprocess
import sys

import numpy as np
import pytest

import reshard

RULES = reshard.Rules("mesh tp=4\n*.weight [_/tp, _]\n* [...]\n")
W = np.random.default_rng(5).standard_normal((16, 6)).astype(np.float32)
BIAS = np.arange(5.0)


@pytest.fixture()
def saved(tmp_path):
    def main(comm):
        x = reshard.scatter(comm, "f32[16/x, 6] on x=4", W if comm.rank == 0 else None)
        y = reshard.scatter(comm, "f64[5]", BIAS if comm.rank == 0 else None)
        z = reshard.Sharded(comm, "bf16[4] on x=4", np.arange(4, dtype=np.uint16))
        reshard.save(comm, tmp_path / "saved", {"a.weight": x, "b": y, "c": z}, metadata={"who": "me"})

    reshard.run(4, main)
    return tmp_path / "saved"


def test_a_checkpoint_is_a_mapping_of_lazy_tensors(saved):
    with reshard.open(saved) as c:
        assert set(c) == {"a.weight", "b", "c"} and len(c) == 3 and "b" in c
        w = c["a.weight"]
        assert (w.shape, w.dtype, w.ndim, w.nbytes, len(w)) == ((16, 6), "f32", 2, 384, 16)
        assert w.layout.text == "f32[16/x, 6] on x=4" and w.by_rank and w.digest.startswith("d2:")
        assert c.metadata["who"] == "me" and c.kind and len(c.files) == 4 and c.nbytes == 384 + 40 + 8
        with pytest.raises(KeyError, match="no tensor is named 'q'"):
            c["q"]
    with pytest.raises(ValueError, match="closed"):
        w[0]


@pytest.mark.parametrize("index", [np.s_[0:3, :], np.s_[5], np.s_[-1], np.s_[..., 2], np.s_[3:11:2, ::-1], np.s_[::-3],
                                   np.s_[4:4], np.s_[:], np.s_[..., 1:3, -2], np.s_[2, 3], np.s_[100:200], ...])
def test_slices_read_what_numpy_would_give(saved, index):
    with reshard.open(saved) as c:
        assert np.array_equal(c["a.weight"][index], W[index])


def test_reading_in_other_ways(saved):
    with reshard.open(saved) as c:
        assert np.array_equal(np.asarray(c["a.weight"]), W) and np.array_equal(c["b"].numpy(), BIAS)
        out = np.zeros((2, 3), np.float32)
        assert c["a.weight"].read((1, 2), (3, 5), out=out) is out and np.array_equal(out, W[1:3, 2:5])
        assert c["c"].read().dtype == "bf16" and np.asarray(c["c"].read()).tolist() == [0, 1, 2, 3]
        for wrong in (np.s_[16], np.s_[0, 0, 0], np.s_[0, 7]):
            with pytest.raises(IndexError):
                c["a.weight"][wrong]
        for wrong in (None, [0], True, "x", np.s_[0, None]):
            with pytest.raises(TypeError, match="must be an integer, a slice or an ellipsis"):
                c["a.weight"][wrong]


def test_convert_verify_preview_and_inspect(saved, tmp_path):
    told = []
    whole, four = tmp_path / "whole.safetensors", tmp_path / "four"
    done = reshard.convert(saved, whole, verify=True, progress=lambda done, total: told.append((done, total)))
    assert done["verified"] and done["tensors"] == 3 and told[-1][0] == told[-1][1]
    steps = reshard.preview(whole, four, to=RULES)
    assert {s["name"]: s["pattern"] for s in steps}["a.weight"] == "*.weight" and not four.exists()
    assert reshard.convert(whole, four, to=RULES, exclude="b")["files"] == 4
    assert reshard.verify(saved, whole) is None
    name, sentence, _ = reshard.verify(whole, four)
    assert name == "b" and sentence
    assert reshard.verify(whole, four, allow_missing=True) is None
    found = reshard.inspect(four)
    assert found["tensors"]["a.weight"]["layout"] == "f32[16/tp, 6] on tp=4"
    (tmp_path / "rules").write_text("mesh tp=2\n*.weight [_, _/tp]\n* [...]\n")
    assert reshard.convert(whole, tmp_path / "two", to=tmp_path / "rules")["files"] == 2


def gguf(tensors):
    """A GGUF file: name to (number of the type, sizes from the slowest dim on, bytes)."""
    text = lambda x: struct.pack("<Q", len(x)) + x.encode()
    infos = data = b""
    for name, (kind, shape, raw) in tensors.items():
        infos += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape)) + struct.pack("<IQ", kind, len(data))
        data += raw + bytes(-len(raw) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 1) + text("general.architecture") + struct.pack("<I", 8) + text("x")
    head += infos
    return head + bytes(-len(head) % 32) + data


def test_quantised_tensors_of_gguf_files_are_bytes(tmp_path):
    packed = bytes(range(72)) * 2  # Q4_0[4, 64]: blocks of 32 elements and 18 bytes
    (tmp_path / "m.gguf").write_bytes(gguf({"w": (2, (4, 64), packed), "norm": (0, (8,), np.arange(8, dtype="f4").tobytes())}))
    with reshard.open(tmp_path / "m.gguf") as c:
        w = c["w"]
        assert (w.packing, w.dtype, w.shape, c["norm"].packing) == ("Q4_0", "u8", (4, 36), None)
        assert w.numpy().tobytes() == packed
    assert reshard.convert(tmp_path / "m.gguf", tmp_path / "parts", format="gguf", max_tensors=1)["files"] == 2
    assert [s["name"] for s in reshard.preview(tmp_path / "parts", tmp_path / "x.gguf")] == ["w", "norm"]
    reshard.convert(tmp_path / "parts", tmp_path / "again.gguf", verify=True)
    assert (tmp_path / "again.gguf").read_bytes() == (tmp_path / "m.gguf").read_bytes()
    with pytest.raises(NotImplementedError, match="quantised"):
        reshard.convert(tmp_path / "m.gguf", tmp_path / "x.safetensors")

    def main(comm):
        as_bytes = reshard.load(comm, tmp_path / "m.gguf", {"w": "u8[4, 36]"})["w"].gather().numpy().tobytes()
        with pytest.raises(TypeError, match="only as bytes"):
            reshard.load(comm, tmp_path / "m.gguf", {"w": "f32[4, 36]"})
        return as_bytes

    assert reshard.run(1, main) == [packed]


def test_a_difference_is_found(saved, tmp_path):
    def main(comm):
        other = W.copy()
        other[7, 3] += 1
        reshard.save(comm, tmp_path / "other", {"a.weight": reshard.Sharded(comm, "f32[16, 6]", other),
                                                "b": reshard.Sharded(comm, "f64[5]", BIAS),
                                                "c": reshard.Sharded(comm, "bf16[4]", np.arange(4, dtype=np.uint16))})

    reshard.run(1, main)
    assert reshard.verify(saved, tmp_path / "other")[0::2] == ("a.weight", (7, 3))


def test_errors_and_stops(saved, tmp_path):
    with pytest.raises(ZeroDivisionError):
        reshard.convert(saved, tmp_path / "x.safetensors", progress=lambda *_: 1 / 0)
    with pytest.raises(RuntimeError):
        reshard.convert(saved, tmp_path / "x.safetensors", force=True, progress=lambda *_: True)
    assert not (tmp_path / "x.safetensors").exists()
    with pytest.raises(OSError):
        reshard.open(tmp_path / "nothing")
    with pytest.raises(ValueError):
        reshard.convert(saved, saved)
    with pytest.raises(ValueError, match="1:"):
        reshard.Rules("* [_/tp\n")
    with pytest.raises(KeyError):
        reshard.Rules("mesh tp=2\n*.weight [_/tp]\n").layout("bias", "f32", (4,))
    assert RULES.layout("x.weight", np.float32, (8, 2)).text == "f32[8/tp, 2] on tp=4"


@pytest.mark.parametrize("processes", [False, True])
def test_load_in_any_layout(saved, processes):
    def main(comm):
        made = reshard.load(comm, saved, {"a.weight": "f64[16, 6/x] on x=3", "b": "f64[5/x] on x=3"})
        mine = reshard.zeros(comm, "f32[16/x, 6] on x=3")
        reshard.load(comm, saved, {"a.weight": mine})
        by_rules = reshard.load(comm, saved, reshard.Rules("mesh q=3\n*.weight [_/q~, _]\n* [...]\n"))
        with pytest.raises(KeyError):
            reshard.load(comm, saved, {"nothing": "f32[2]"})
        return [np.array_equal(made["a.weight"].gather().numpy(), W.astype(np.float64)) if comm.rank == 0 else
                made["a.weight"].gather() is None,
                made["b"].layout.part_shape(0) == (2,), mine.digest() == by_rules["a.weight"].digest()]

    for right in reshard.run(3, main, processes=processes):
        assert all(right), right


def test_a_bar_on_a_terminal_and_ctrl_c(tmp_path, capsys):
    reshard.run(1, lambda comm: reshard.save(comm, tmp_path / "s", {"w": reshard.zeros(comm, "u8[4000000]")}))
    reshard.convert(tmp_path / "s", tmp_path / "t.safetensors", progress=True)
    assert "100 %" in capsys.readouterr().err
    text = ("import reshard, time\n"
            "def slow(done, total):\n"
            "    print('ready', flush=True)\n"
            "    time.sleep(0.2)\n"
            f"reshard.convert({str(tmp_path / 's')!r}, {str(tmp_path / 'u.safetensors')!r}, mem=1<<20, progress=slow)\n")
    child = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    child.stdout.readline()
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors and not os.path.exists(tmp_path / "u.safetensors"), errors


def test_a_bar_in_a_notebook(tmp_path, monkeypatch):
    """What IPython is asked to display, by a stand-in for it."""
    import types

    shown = []
    handle = types.SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))
    notebook = types.ModuleType("IPython")
    notebook.get_ipython = lambda: type("ZMQInteractiveShell", (), {})()
    notebook.display = types.ModuleType("IPython.display")
    notebook.display.display = lambda data, raw, display_id: shown.append(data["text/plain"]) or handle
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook.display)
    reshard.run(1, lambda comm: reshard.save(comm, tmp_path / "s", {"w": reshard.zeros(comm, "u8[1000]")}))
    reshard.convert(tmp_path / "s", tmp_path / "t.safetensors", progress=True)
    assert len(shown) >= 2 and "100 %" in shown[-1]
