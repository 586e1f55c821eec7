# SPDX-License-Identifier: Apache-2.0
"""Memory that ranks put into and get from by themselves."""
from __future__ import annotations

import ctypes
from ctypes import byref, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any

from ._buffers import Buffer
from ._errors import InvalidUsage
from ._native import HOST
from ._work import Work

if TYPE_CHECKING:
    from .comm import Communicator


class DeviceMemory:
    """A rank's memory of a window on GPUs, as this rank's GPU reaches it, for as long as the window is open."""

    def __init__(self, window: Window, address: int, size: int, device: int) -> None:
        self.window = window
        self.device = type("Device", (), {"id": device})
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


class Window:
    """Memory of each rank that the others put into and get from without a call of that rank's: Communicator.window().
    Offsets are in bytes. With wait=False calls return at once, as those of the communicator; on GPUs all do. There they
    go on `stream`, by default the one of `data`, or the default stream."""

    def __init__(self, comm: Communicator, place: Buffer) -> None:
        handle = c_void_p()
        comm._call("window_register", place.address, place.count * place.itemsize, byref(handle))
        self.comm = comm
        self.handle: c_void_p | None = handle
        self._place = place  # it lives as long

    def __enter__(self) -> Window:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        if kind is None:
            self.close()

    def close(self) -> None:
        """Collective: what any rank has put is there, and nothing comes any more. Does nothing the second time."""
        handle, self.handle = self.handle, None
        if handle:
            self.comm._call("window_deregister", handle)

    def _open(self) -> c_void_p:
        if not self.handle:
            raise InvalidUsage("the window was closed")
        return self.handle

    def size(self, rank: int) -> int:
        """Bytes that `rank` has registered."""
        size = c_size_t()
        self.comm._call("window_address", self._open(), rank, None, byref(size))
        return size.value

    def memory(self, rank: int) -> Any:
        """The memory of `rank` as a ctypes array, where it is mapped here, for as long as the window is open. None: it
        is of another host, or of another process and not of alloc(). On GPUs: bytes with __cuda_array_interface__."""
        address, size = c_void_p(), c_size_t()
        self.comm._call("window_address", self._open(), rank, byref(address), byref(size))
        if self.comm.device != HOST:
            return DeviceMemory(self, address.value, size.value, self.comm.device) if address.value else None
        kind: Any = ctypes.c_ubyte * size.value
        return kind.from_address(address.value) if address.value else None

    def put(self, data: Any, peer: int, offset: int = 0, signal: int | None = None, *, wait: bool = True,
            stream: int | None = None) -> Work:
        """`data` go to the memory of `peer`; then, if a number is given, a signal."""
        place = self.comm._place(data, "data")
        where = (place.address, *place.units(), peer, self._open(), self._offset(offset))
        if signal is None:
            return self.comm._issue("put", where, (place,), wait, stream)
        return self.comm._issue("put_signal", (*where, signal), (place,), wait, stream)

    def get(self, data: Any, peer: int, offset: int = 0, *, wait: bool = True, stream: int | None = None) -> Work:
        """`data` are filled from the memory of `peer`, with what this rank has put there before."""
        place = self.comm._place(data, "data", True)
        where = (place.address, *place.units(), peer, self._open(), self._offset(offset))
        return self.comm._issue("get", where, (place,), wait, stream)

    @staticmethod
    def _offset(offset: int) -> int:
        if offset < 0:
            raise ValueError(f"offset is {offset}; it is 0 or more")
        return offset

    def flush(self, peer: int | None = None, *, wait: bool = True, stream: int | None = None) -> Work:
        """Ends when all that this rank has put to `peer`, or to all ranks, is there."""
        return self.comm._issue("window_flush", (-1 if peer is None else peer, self._open()), (), wait, stream)
