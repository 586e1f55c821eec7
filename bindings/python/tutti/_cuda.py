# SPDX-License-Identifier: Apache-2.0
"""Order between streams of CUDA, by the driver: a buffer may have been written on another stream than the call's."""
from __future__ import annotations

import ctypes
import functools
import os
from ctypes import byref, c_int, c_uint, c_void_p

from ._errors import DeviceError

LEGACY = 1  # the default stream, as __cuda_array_interface__ and DLPack name it
DISABLE_TIMING = 2  # CU_EVENT_DISABLE_TIMING


@functools.cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL(os.environ.get("TUTTI_CUDA_LIBRARY") or "libcuda.so.1")


def _call(name: str, *arguments: object) -> None:
    code = getattr(_driver(), name)(*arguments)
    if code:
        raise DeviceError(f"ordering streams of CUDA: {name} failed with {code}")


@functools.cache
def _context(device: int) -> c_void_p:
    """The device's primary context, which frameworks and the library use."""
    handle, context = c_int(), c_void_p()
    _call("cuInit", 0)
    _call("cuDeviceGet", byref(handle), device)
    _call("cuDevicePrimaryCtxRetain", byref(context), handle)
    return context


def handle(stream: int | None) -> int:
    """A stream's number for the driver."""
    return 0 if stream is None or stream == LEGACY else stream


def follow(device: int, stream: int, other: int) -> None:
    """What `stream` is given from now on comes behind what `other` has to do until now."""
    event = c_void_p()
    _call("cuCtxPushCurrent_v2", _context(device))
    try:
        _call("cuEventCreate", byref(event), c_uint(DISABLE_TIMING))
        try:
            _call("cuEventRecord", event, c_void_p(other))
            _call("cuStreamWaitEvent", c_void_p(stream), event, c_uint(0))
        finally:
            _call("cuEventDestroy_v2", event)
    finally:
        _call("cuCtxPopCurrent_v2", byref(c_void_p()))
