"""Layouts, plans and moves of parts that one process holds."""
import importlib.util
import pickle

import numpy as np
import pytest

import reshard

A = reshard.Layout("f32[4096/tp, 11008] on dp=2,tp=4")
B = reshard.Layout("f32[4096, 11008/tp] on dp=2,tp=4")


def test_folders_of_tests_are_no_modules():
    assert importlib.util.find_spec("dtensor") is None  # nor is tests/torch, where PyTorch is missing


def test_a_layout_answers_what_the_header_answers():
    layout = reshard.Layout("f64[10/p:2, 6/q] on p=2,q=2 order(1,0)")
    assert (layout.shape, layout.ndim, layout.dtype, layout.size) == ((10, 6), 2, "f64", 60)
    assert layout.ranks == (0, 1, 2, 3)
    assert layout.axes == {"p": 2, "q": 2}
    assert layout.partial is None
    assert layout.nparts(0) == 1 and layout.nparts(7) == 0
    assert layout.part_shape(0) == (6, 3) and layout.part_strides(0) == (1, 6)
    assert layout.ranges(0, 0) == [(0, 2), (4, 6), (8, 10)]
    assert layout.boxes(0)[0] == ((0, 0), (2, 3), 0, (1, 6))
    offset = layout.local_offset(0, (4, 2))
    assert layout.global_index(0, offset) == (4, 2)
    with pytest.raises(KeyError):
        layout.local_offset(0, (2, 0))
    with pytest.raises(IndexError):
        layout.part_shape(9)
    assert reshard.Layout("f32[8] on tp=4 sum(tp)").partial == "sum"


def test_layouts_are_values():
    again = reshard.Layout("f32[4096/tp,11008]   on dp=2,tp=4")
    assert again == A and hash(again) == hash(A) and again != B
    assert {A: 1}[again] == 1
    assert pickle.loads(pickle.dumps(A)) == A
    assert eval(repr(A)) == A
    assert A.same_parts("f32[4096/tp~, 11008] on dp=2,tp=4")
    assert reshard.Layout.whole("f32", (3, 4)).part_shape(0) == (3, 4)
    assert reshard.Layout.from_form("[_/tp, _]", np.float32, (8, 2), mesh="tp=4").text == "f32[8/tp, 2] on tp=4"


def test_a_wrong_layout_says_where():
    with pytest.raises(ValueError, match="1:10"):
        reshard.Layout("f32[8/x] in x=2")
    with pytest.raises(TypeError):
        reshard.Layout(3)


def test_a_plan_answers_what_the_header_answers():
    plan = reshard.plan(A, B)
    assert plan.bytes_moved == plan.lower_bound == 2 * 4096 * 11008 * 4 * 3 // 4
    assert plan.totals()["bytes_moved"] == plan.bytes_moved
    assert plan.rank(0)["bytes_received"] == plan.max_recv
    per_rank = plan.bytes_per_rank()
    assert sum(received for _, received, _ in per_rank.values()) == plan.bytes_moved
    assert sum(bytes for (s, d), bytes in plan.matrix().items() if s != d) == plan.bytes_moved
    assert sum(bytes for peer, bytes in plan.receives_from(3).items() if peer != 3) == per_rank[3][1]
    assert sum(bytes for peer, bytes in plan.sends_to(3).items() if peer != 3) == per_rank[3][0]
    assert plan.stages(0)[0]["elements_received"] * 4 == plan.max_recv
    assert plan.simulate(memory=1e10)["seconds"] > 0
    assert plan.sources == (A,) and plan.targets == (B,)


def test_plans_are_values():
    plan = reshard.plan(A, B, ranks_per_node=4)
    assert plan == reshard.plan(A.text, B.text, ranks_per_node=4) and plan != reshard.plan(A, B)
    for value in (plan, plan.adjoint(), plan.backward(), reshard.plan([A, A], [B, A])):
        again = pickle.loads(pickle.dumps(value))
        assert again == value and hash(again) == hash(value) and again.totals() == value.totals()
    with pytest.raises(TypeError, match="layout must be a reshard.Layout or a text, got <class 'int'>"):
        reshard.plan(3, "f32[4]")
    with pytest.raises(TypeError, match="unknown option"):
        reshard.plan(A, B, speed=11)
    with pytest.raises(ValueError):
        reshard.plan(A, "f32[8]")


def test_pictures_and_words():
    plan = reshard.plan("f32[8/x, 8] on x=4", "f32[8, 8/x] on x=4")
    assert plan._repr_svg_().startswith("<svg") and "<svg" in plan._repr_html_()
    assert A._repr_svg_().startswith("<svg") and A.text in A._repr_html_()
    assert plan.explain() and plan.explain(rank=1) != plan.explain()
    assert plan.json()["bytes_moved"] == plan.bytes_moved
    assert plan.draw() and plan.draw("ansi") and plan.draw("html").startswith("<!")
    with pytest.raises(ValueError, match="form must be one of"):
        plan.draw("oil")


def test_relabelling_keeps_bytes_where_they_are():
    target, exact = reshard.relabel("f32[8/x] on x=4", "f32[8/x] on x=4@[1,2,3,0]")
    assert exact and reshard.plan("f32[8/x] on x=4", target).bytes_moved == 0


def test_a_move_of_all_parts():
    whole = np.arange(64, dtype=np.float32).reshape(8, 8)
    a, b = reshard.Layout("f32[8/x, 8] on x=4"), reshard.Layout("f32[8, 8/x] on x=4")
    parts = reshard.move(a, b, np.split(whole, 4))
    assert all(np.array_equal(np.asarray(p), w) for p, w in zip(parts, np.split(whole, 4, axis=1)))
    out = [np.zeros((8, 2), np.float32) for _ in range(4)]
    assert reshard.move(reshard.plan(a, b), parts=np.split(whole, 4), out=out) is out
    assert all(np.array_equal(p, w) for p, w in zip(out, np.split(whole, 4, axis=1)))
    assert reshard.digest(a, np.split(whole, 4)) == reshard.digest(b, parts)


def test_a_move_refuses_what_does_not_fit():
    a, b = "f32[8/x, 8] on x=4", "f32[8, 8/x] on x=4"
    good = [np.zeros((2, 8), np.float32)] * 4
    with pytest.raises(ValueError, match=r"shape \(2, 8\), got \(8, 2\)"):
        reshard.move(a, b, [np.zeros((8, 2), np.float32)] * 4)
    with pytest.raises(TypeError, match="dtype f32, got f64"):
        reshard.move(a, b, [np.zeros((2, 8))] * 4)
    with pytest.raises(ValueError, match="parts of 4 ranks, got 3"):
        reshard.move(a, b, good[:3])
    out = [np.zeros((8, 2), np.float32) for _ in range(4)]
    out[2].flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        reshard.move(a, b, good, out=out)
