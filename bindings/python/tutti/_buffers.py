# SPDX-License-Identifier: Apache-2.0
"""Memory of others: address, length and type of whatever has a buffer, DLPack or __cuda_array_interface__.
Nothing is copied."""
from __future__ import annotations

import ctypes
import math
import sys
from ctypes import c_int, c_int32, c_int64, c_ssize_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, \
    py_object
from typing import Any, NamedTuple

from ._cuda import LEGACY

# Names as NumPy and PyTorch have them -> tutti_type_t.
TYPES = {"int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6, "float32": 7,
         "float64": 8, "bfloat16": 9, "float8_e4m3fn": 10, "float8_e5m2": 11}
BYTES = TYPES["uint8"]


class Buffer(NamedTuple):
    """Contiguous memory. `type` is -1 where the library has no such type: it can be moved, as bytes,
    and not reduced."""

    address: int
    count: int
    itemsize: int
    type: int
    name: str
    device: int  # of CUDA; -1: host
    readonly: bool
    keep: Any  # what keeps the memory alive
    stream: int | None = None  # of CUDA, on which the contents are written: calls come behind what it has to do

    def units(self) -> tuple[int, int]:
        """Count and type to move by."""
        return (self.count, self.type) if self.type >= 0 else (self.count * self.itemsize, BYTES)


class _PyBuffer(ctypes.Structure):
    """Py_buffer."""

    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t), ("itemsize", c_ssize_t), ("readonly", c_int),
                ("ndim", c_int), ("format", ctypes.c_char_p), ("shape", c_void_p), ("strides", c_void_p),
                ("suboffsets", c_void_p), ("internal", c_void_p)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [py_object, ctypes.POINTER(_PyBuffer), c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_PyBuffer)]


class _View:
    """Holds an exported buffer, so that its owner cannot be resized, until it dies."""

    def __init__(self, owner: Any) -> None:
        self.raw = _PyBuffer()
        _get_buffer(owner, self.raw, 0)  # 0, PyBUF_SIMPLE: refused unless contiguous

    def __del__(self) -> None:
        if self.raw.obj:
            _release_buffer(self.raw)


class _DLTensor(ctypes.Structure):
    """DLTensor of dlpack.h."""

    _fields_ = [("data", c_void_p), ("device", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", ctypes.POINTER(c_int64)),
                ("strides", ctypes.POINTER(c_int64)), ("byte_offset", c_uint64)]


class _DLVersioned(ctypes.Structure):
    """DLManagedTensorVersioned of dlpack.h."""

    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p),
                ("flags", c_uint64), ("tensor", _DLTensor)]


_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.argtypes = [py_object]
_capsule_name.restype = ctypes.c_char_p
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = [py_object, ctypes.c_char_p]
_capsule_pointer.restype = c_void_p
_DL_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_DL_NAMES = {"bool8": "bool"}
_DL_VERSION = 1  # the major one: another has another layout
_DL_READ_ONLY, _DL_COPIED = 1, 2  # flags
# Whose arrays nothing may write, and who give capsules of the old kind, which cannot say so.
_IMMUTABLE = ("jax", "jaxlib", "tensorflow")
_DL_HOST, _DL_CUDA, _DL_CUDA_HOST, _DL_CUDA_MANAGED = 1, 2, 3, 13
_FORMATS = {"b": "int", "h": "int", "i": "int", "l": "int", "q": "int", "n": "int", "B": "uint", "H": "uint",
            "I": "uint", "L": "uint", "Q": "uint", "N": "uint", "c": "uint", "e": "float", "f": "float", "d": "float"}
_ARRAY_KINDS = {"i": "int", "u": "uint", "f": "float", "c": "complex"}


def describe(thing: Any, argument: str, writable: bool = False) -> Buffer:
    """The memory of `thing`. TypeError: it has none; ValueError: not contiguous, or read-only where it is written."""
    if isinstance(thing, Buffer):
        found = thing
    elif hasattr(thing, "data_ptr") and hasattr(thing, "is_contiguous"):
        found = _of_torch(thing, argument)
    elif hasattr(thing, "__cuda_array_interface__"):
        found = _of_interface(thing, thing.__cuda_array_interface__, argument, _cuda_device(thing))
    elif hasattr(thing, "__array_interface__") and not _is_scalar(thing):
        found = _of_interface(thing, thing.__array_interface__, argument, -1)
    elif hasattr(thing, "__dlpack__"):
        found = _of_dlpack(thing, argument)
    else:
        found = _of_buffer(thing, argument)
    if writable and found.readonly:
        raise ValueError(f"{argument} is read-only ({type(thing).__name__}), and the call writes to it: pass memory "
                         "that may be written, for the result of a call as recv (numpy.array(x) makes a copy)")
    return found


def _is_scalar(thing: Any) -> bool:
    """A scalar of NumPy shows, as an array, a copy that dies at once; as a buffer it shows itself."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(thing, numpy.generic)


def _refuse_strides(argument: str, what: str) -> ValueError:
    return ValueError(f"{argument} ({what}) is not contiguous in memory; nothing is copied behind your back: make it "
                      "contiguous first (numpy.ascontiguousarray(x), x.contiguous())")


def _of_torch(tensor: Any, argument: str) -> Buffer:
    name = str(tensor.dtype).removeprefix("torch.")
    kind = tensor.device.type
    if kind not in ("cpu", "cuda") or "strided" not in str(tensor.layout):
        raise TypeError(f"{argument} is a {tensor.layout} tensor on {tensor.device}; dense tensors on cpu and cuda "
                        "can be sent")
    if not tensor.is_contiguous():
        raise _refuse_strides(argument, f"a tensor of shape {tuple(tensor.shape)}, strides {tensor.stride()}")
    if tensor.is_conj() or tensor.is_neg():
        raise ValueError(f"{argument} is a tensor that is conjugated or negated when it is read: its memory holds "
                         "other values; use resolve_conj() or resolve_neg()")
    device = tensor.device.index if kind == "cuda" else -1
    return Buffer(tensor.data_ptr(), tensor.numel(), tensor.element_size(), TYPES.get(name, -1), name, device,
                  False, tensor)


def current_stream(buffer: Buffer) -> int | None:
    """The stream on which who owns the buffer works at this moment, as far as that is known."""
    if buffer.stream is None and type(buffer.keep).__module__.partition(".")[0] == "torch":
        return sys.modules["torch"].cuda.current_stream(buffer.device).cuda_stream
    return buffer.stream


def _cuda_device(thing: Any) -> int:
    device = getattr(thing, "device", None)
    return int(getattr(device, "id", 0) or 0)


def _of_interface(thing: Any, interface: dict[str, Any], argument: str, device: int) -> Buffer:
    shape, strides, typestr = interface["shape"], interface.get("strides"), interface["typestr"]
    if typestr[1] == "O":
        raise TypeError(f"{argument} holds Python objects, which cannot be sent as they are: pickle them")
    if typestr[0] == ">":
        raise TypeError(f"{argument} has another byte order than this machine ({typestr})")
    itemsize = int(typestr[2:])
    if strides is not None and not _dense(shape, strides, itemsize):
        raise _refuse_strides(argument, f"an array of shape {tuple(shape)}, strides {tuple(strides)}")
    if typestr[1] in _ARRAY_KINDS:
        name = f"{_ARRAY_KINDS[typestr[1]]}{8 * itemsize}"
    else:
        name = str(getattr(thing, "dtype", typestr))  # bool, and what ml_dtypes adds
    address, readonly = interface["data"]
    stream = interface.get("stream") if device >= 0 else None
    return Buffer(address or 0, math.prod(shape), itemsize, TYPES.get(name, -1), name, device, readonly, thing, stream)


def _dense(shape: Any, strides: Any, itemsize: int) -> bool:
    if 0 in shape:
        return True
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != itemsize:
            return False
        itemsize *= extent
    return True


def _capsule_of(thing: Any, argument: str) -> Any:
    """A DLPack capsule: of the kind that says whether it is read-only, where its owner has that."""
    how: dict[str, Any] = {}
    if hasattr(thing, "__dlpack_device__") and thing.__dlpack_device__()[0] in (_DL_CUDA, _DL_CUDA_MANAGED):
        how["stream"] = LEGACY  # the memory's owner lets that stream wait for what is still to be written there
    try:
        try:
            return thing.__dlpack__(max_version=(_DL_VERSION, 0), **how)
        except TypeError:  # older than that argument
            return thing.__dlpack__(**how)
    except BufferError as error:
        raise TypeError(f"{argument} gives no DLPack capsule: {error}") from None


def _is_immutable(thing: Any) -> bool:
    """What a capsule of the old kind does not say."""
    if any(kind.__module__.partition(".")[0] in _IMMUTABLE for kind in type(thing).__mro__):
        return True
    try:
        with memoryview(thing) as shown:
            return shown.readonly
    except (TypeError, BufferError, ValueError):
        return False


def _open(capsule: Any, thing: Any, argument: str) -> tuple[_DLTensor, bool]:
    """The tensor of a capsule, and whether it is read-only."""
    if _capsule_name(capsule) != b"dltensor_versioned":
        return _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor")), _is_immutable(thing)
    versioned = _DLVersioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
    if versioned.major != _DL_VERSION:
        raise TypeError(f"{argument} gives a DLPack capsule of version {versioned.major}.{versioned.minor}; version "
                        f"{_DL_VERSION} was asked for")
    # What is written into a copy would be lost.
    return versioned.tensor, bool(versioned.flags & (_DL_READ_ONLY | _DL_COPIED))


def _of_dlpack(thing: Any, argument: str) -> Buffer:
    capsule = _capsule_of(thing, argument)
    tensor, readonly = _open(capsule, thing, argument)
    shape = [tensor.shape[i] for i in range(tensor.ndim)]
    itemsize = tensor.bits * tensor.lanes // 8
    if tensor.device not in (_DL_HOST, _DL_CUDA, _DL_CUDA_HOST, _DL_CUDA_MANAGED):
        raise TypeError(f"{argument} is on a device of DLPack's kind {tensor.device}; the host and CUDA can be used")
    if tensor.strides and not _dense(shape, [tensor.strides[i] * itemsize for i in range(tensor.ndim)], itemsize):
        raise _refuse_strides(argument, f"DLPack, shape {shape}")
    name = f"{_DL_KINDS.get(tensor.code, 'opaque')}{tensor.bits}"
    name = _DL_NAMES.get(name, name)
    device = tensor.device_id if tensor.device in (_DL_CUDA, _DL_CUDA_MANAGED) else -1
    address = (tensor.data or 0) + tensor.byte_offset
    return Buffer(address, math.prod(shape), itemsize, TYPES.get(name, -1), name, device, readonly, (thing, capsule),
                  LEGACY if device >= 0 else None)


def _of_buffer(thing: Any, argument: str) -> Buffer:
    try:
        shown = memoryview(thing)
    except TypeError:
        raise TypeError(f"{argument} is a {type(thing).__name__}: neither a buffer, nor an array of NumPy, a tensor of "
                        "PyTorch, or anything with __dlpack__ or __cuda_array_interface__") from None
    if not shown.c_contiguous:
        raise _refuse_strides(argument, f"a buffer of shape {shown.shape}, strides {shown.strides}")
    view = _View(thing)
    kind = _FORMATS.get(shown.format.lstrip("@=<"))
    name = f"{kind}{8 * shown.itemsize}" if kind else {"?": "bool"}.get(shown.format, shown.format)
    return Buffer(view.raw.buf or 0, shown.nbytes // shown.itemsize, shown.itemsize, TYPES.get(name, -1), name, -1,
                  shown.readonly, (thing, view))
