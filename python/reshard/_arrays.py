"""Conversions of Array to NumPy and PyTorch, if they are installed."""
from ._reshard import Array

_ML_DTYPES = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "f8e8m0": "float8_e8m0fnu",
              "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2fnuz": "float8_e5m2fnuz"}


def _to_numpy(self):
    """Returns a NumPy array on the same memory.

    bf16 and 8-bit floats have the dtypes of ml_dtypes if it is installed; otherwise they are unsigned integers of
    the same size, and `dtype` of this object tells the real dtype.
    """
    import numpy

    array = numpy.asarray(self)
    name = _ML_DTYPES.get(self.dtype)
    if name is None:
        return array
    try:
        import ml_dtypes
    except ImportError:
        return array
    return array.view(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else array


def _to_torch(self):
    """Returns a PyTorch tensor on the same memory."""
    import torch

    if self.dtype == "bool":  # DLPack in old versions of PyTorch lacks bool
        return torch.from_numpy(_to_numpy(self))
    return torch.from_dlpack(self)


def _to_list(self):
    """Returns the elements as nested lists."""
    return memoryview(self).tolist() if self.dtype not in ("f16", "c64", "c128") else _to_numpy(self).tolist()


Array.numpy = _to_numpy
Array.torch = _to_torch
Array.tolist = _to_list
