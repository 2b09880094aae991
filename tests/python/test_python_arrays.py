"""Arrays in and out: no copy, any strides, every protocol, every dtype."""
import ctypes
import gc
import os
import sys

import numpy as np
import pytest

import reshard

sys.path.insert(0, os.path.dirname(__file__))
from layout_model import DTYPES  # noqa: E402

torch = pytest.importorskip("torch") if os.environ.get("RESHARD_REQUIRE_TORCH") else None
if torch is None:
    try:
        import torch
    except ImportError:
        torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")


def rank_addresses(comm):
    """No copy in, no copy out: addresses."""
    mine = np.arange(12, dtype=np.float32).reshape(3, 4) + comm.rank
    x = reshard.Sharded(comm, "f32[6/x, 4] on x=2", mine)
    found = [x.local.address == mine.ctypes.data, np.asarray(x.local).ctypes.data == mine.ctypes.data]
    y = x.reshard("f32[6, 4/x] on x=2")
    found.append(np.asarray(y.local).ctypes.data == y.local.address == y.local.numpy().ctypes.data)
    z = reshard.empty(comm, "f32[6/x, 4] on x=2")
    found.append(z.local.numpy().ctypes.data == z.local.address)
    if torch is not None:
        t = torch.arange(12, dtype=torch.float32).reshape(3, 4)
        x = reshard.Sharded(comm, "f32[6/x, 4] on x=2", t)
        found += [x.local.address == t.data_ptr(), torch.from_dlpack(x.local).data_ptr() == t.data_ptr()]
        found.append(torch.from_dlpack(y.local).data_ptr() == y.local.address == y.local.torch().data_ptr())
    return found


@pytest.mark.parametrize("processes", [False, True])
def test_nothing_is_copied(processes):
    for found in reshard.run(2, rank_addresses, processes=processes):
        assert all(found), found


def test_arrays_live_as_long_as_somebody_looks():
    source = np.arange(6.0)
    before = sys.getrefcount(source)
    view = reshard.Array(source)
    assert sys.getrefcount(source) == before + 1
    again = np.asarray(view)
    del view
    gc.collect()
    assert sys.getrefcount(source) == before + 1 and again.tolist() == source.tolist()
    del again
    gc.collect()
    assert sys.getrefcount(source) == before


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_every_dtype_by_the_buffer_protocol(dtype):
    source = np.arange(8).astype(DTYPES[dtype])
    array = reshard.Array(source, dtype)
    assert array.dtype == dtype and array.nbytes == source.nbytes
    assert np.asarray(array).dtype == source.dtype and np.array_equal(np.asarray(array), source)
    whole = reshard.move(f"{dtype}[8/x] on x=2", f"{dtype}[8]", np.split(source, 2))
    assert whole[0].dtype == dtype and np.asarray(whole[0]).tobytes() == source.tobytes()


@needs_torch
@pytest.mark.parametrize("dtype", ["bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128"])
def test_every_dtype_of_pytorch(dtype):
    names = {"bool": "bool", "u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
             "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "c64": "complex64",
             "c128": "complex128"}
    source = (torch.arange(8) % 2).to(getattr(torch, names[dtype]))
    assert reshard.Array(source).dtype == dtype
    whole = reshard.move(f"{dtype}[8/x] on x=2", f"{dtype}[8]", list(source.chunk(2)))[0].torch()
    assert whole.dtype == source.dtype and torch.equal(whole, source)


def test_strides_of_every_kind():
    base = np.arange(120, dtype=np.int32).reshape(4, 5, 6)
    for view in (base.T, base[::-1], base[:, ::2, ::-3], np.broadcast_to(base[0], (3, 5, 6)), base[1:3, 2:2]):
        assert np.array_equal(np.asarray(reshard.Array(view)), view)
    odd = np.zeros(3, dtype=[("a", "u1"), ("b", "<i4")])["b"]
    with pytest.raises(ValueError, match="stride of 5 bytes"):
        reshard.Array(odd)


def test_read_only_sources_are_fine_and_destinations_are_not():
    source = np.arange(4.0)
    source.flags.writeable = False
    array = reshard.Array(source)
    assert array.readonly and not np.asarray(array).flags.writeable
    with pytest.raises(BufferError):
        array.__dlpack__()
    assert array.__dlpack__(max_version=(1, 0)) is not None
    assert np.asarray(reshard.move("f64[4]", "f64[4/x] on x=2", [source])[1]).tolist() == [2.0, 3.0]
    with pytest.raises(ValueError, match="read-only"):
        reshard.move("f64[4]", "f64[4]", [np.ones(4)], out=[source])
    with pytest.raises(ValueError, match="read-only"):
        reshard.run(1, lambda c: reshard.zeros(c, "f64[4]").reshard_into(reshard.Sharded(c, "f64[4]", source)))


def test_dlpack_with_and_without_versions():
    source = np.arange(6, dtype=np.int16).reshape(2, 3)
    inner = reshard.Array(source)
    for versioned in (False, True):
        asked = []

        class Producer:
            def __dlpack_device__(self):
                return (1, 0)

            def __dlpack__(self, **keywords):
                asked.append(keywords)
                if not versioned and keywords:
                    raise TypeError("unexpected keyword")
                return inner.__dlpack__(**keywords)

        taken = reshard.Array(Producer())
        assert taken.address == source.ctypes.data and taken.shape == (2, 3)
        assert asked[-1] == ({"max_version": (1, 0)} if versioned else {})
    capsule = inner.__dlpack__()

    class Once:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **_):
            return capsule

    reshard.Array(Once())
    with pytest.raises(TypeError, match="capsule"):
        reshard.Array(Once())


def test_memory_of_other_devices_is_refused():
    class Gpu:
        def __dlpack_device__(self):
            return (2, 0)

        def __dlpack__(self, **_):
            raise AssertionError("must not be asked")

    with pytest.raises(NotImplementedError, match="copy it to the CPU"):
        reshard.Array(Gpu())


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("ctx", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", DLTensor)]


class Table(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p),
                ("allocate", ctypes.c_void_p), ("from_object", ctypes.c_void_p), ("to_object", ctypes.c_void_p),
                ("view", ctypes.c_void_p), ("stream", ctypes.c_void_p)]


def test_the_exchange_table_of_a_type():
    data = (ctypes.c_double * 6)(*range(6))
    shape, deleted = (ctypes.c_int64 * 2)(2, 3), []
    delete_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    delete = delete_type(lambda _: deleted.append(1))
    managed = Managed(1, 0, None, ctypes.cast(delete, ctypes.c_void_p), 1, DLTensor(
        ctypes.addressof(data), 1, 0, 2, 2, 64, 1, shape, None, 0))
    from_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))

    def from_object(_, out):
        out[0] = ctypes.addressof(managed)
        return 0

    function = from_type(from_object)
    table = Table(1, 3, None, None, ctypes.cast(function, ctypes.c_void_p), None, None, None)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

    class Fast:
        __dlpack_c_exchange_api__ = new(ctypes.addressof(table), b"dlpack_exchange_api", None)

    array = reshard.Array(Fast())
    assert array.address == ctypes.addressof(data) and array.shape == (2, 3) and array.readonly
    assert np.asarray(array).tolist() == [[0, 1, 2], [3, 4, 5]]
    del array
    gc.collect()
    assert deleted == [1]


def test_the_array_interface():
    source = np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::2]

    class Interface:
        __array_interface__ = source.__array_interface__

    array = reshard.Array(Interface())
    assert array.address == source.ctypes.data and np.array_equal(np.asarray(array), source)

    class Named:
        dtype = np.dtype("V2")
        __array_interface__ = dict(np.zeros(2, "u2").__array_interface__, typestr="<V2")

    Named.dtype = type("dtype", (), {"name": "bfloat16"})()
    assert reshard.Array(Named()).dtype == "bf16"


def test_what_is_no_array_is_refused():
    for thing in (3, "text", object(), [1, 2], np.array([object()]), np.zeros(2, ">f4"), np.zeros(2, "U3")):
        with pytest.raises((TypeError, ValueError)):
            reshard.Array(thing)
    with pytest.raises(ValueError, match="at most 8 dims, got 9"):
        reshard.Array(np.zeros((1,) * 9))


def test_arrays_answer():
    array = reshard.move("i32[2, 3]", "i32[2, 3] order(1,0)", [np.arange(6, dtype=np.int32).reshape(2, 3)])[0]
    assert (array.shape, array.strides, array.ndim, array.size, len(array)) == ((2, 3), (1, 2), 2, 6, 2)
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]] and "i32 (2, 3)" in repr(array)
    assert memoryview(array).f_contiguous
    with pytest.raises(BufferError):
        array.__dlpack__(copy=True)


def test_numpy_uses_ml_dtypes_where_it_is_installed(monkeypatch):
    import types

    array = reshard.Array(np.arange(4, dtype=np.uint16), "bf16")
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)  # as if it were not installed
    assert array.numpy().dtype == np.uint16
    monkeypatch.setitem(sys.modules, "ml_dtypes", types.SimpleNamespace(bfloat16=np.float16))  # a stand-in of its size
    assert array.numpy().dtype == np.float16 and array.numpy().ctypes.data == array.address
