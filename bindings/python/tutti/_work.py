# SPDX-License-Identifier: Apache-2.0
"""Operations under way. Each has a stream of the library to itself: that is how its end, and its error,
is told from others'."""
from __future__ import annotations

import time
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any

from ._errors import Error, Result, Timeout
from ._native import call, calls, check

if TYPE_CHECKING:
    from .comm import Communicator

_idle: list[int] = []  # streams; list.pop and append are atomic
LOOK, NAP = 100e-6, 1e-3  # seconds that a wait with a limit looks, and then sleeps between looks


def take_stream() -> int:
    """A stream on which nothing is."""
    try:
        return _idle.pop()
    except IndexError:
        stream = c_void_p()
        call("stream_create", byref(stream))
        return stream.value  # type: ignore[return-value]


class Work:
    """An operation that has been issued. It keeps its buffers alive until it has ended."""

    def __init__(self, comm: Communicator, stream: int | None) -> None:
        self.stream = stream
        self._comm = comm
        self._keep: list[Any] = []
        self._error: Error | None = None

    def keep(self, *things: Any) -> None:
        """These live as long as the operation runs."""
        self._keep += things

    def kept(self) -> list[Any]:
        """What it keeps alive."""
        return list(self._keep)

    def fail(self, error: Error) -> None:
        """The operation was never issued, because of `error`."""
        self._release()
        self._error = error

    def _release(self) -> None:
        stream, self.stream, self._keep = self.stream, None, []
        if stream is not None:
            _idle.append(stream)

    def _end(self) -> None:
        result = calls["stream_synchronize"](self.stream)
        self._release()
        try:
            check(result, self._comm.handle)
        except Error as error:
            self._error = error

    def wait(self, timeout: float | None = None) -> None:
        """Returns when the operation has ended; raises its error. After `timeout` seconds raises Timeout,
        and the operation goes on."""
        if self.stream is not None:
            if timeout is not None:
                self._look(timeout)
            self._end()
        if self._error is not None:
            raise self._error

    def _look(self, timeout: float) -> None:
        start = time.monotonic()
        while calls["stream_query"](self.stream) == Result.IN_PROGRESS:
            passed = time.monotonic() - start
            if passed > timeout:
                raise Timeout(f"the operation has not ended within {timeout:g} s; it goes on: wait again, or abort the "
                              "communicator")
            if passed > LOOK:
                time.sleep(min(NAP, timeout - passed + LOOK))

    def test(self) -> bool:
        """Has the operation ended? Raises its error, if it has failed."""
        if self.stream is not None:
            if calls["stream_query"](self.stream) == Result.IN_PROGRESS:
                return False
            self._end()
        if self._error is not None:
            raise self._error
        return True
