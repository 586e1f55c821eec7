# SPDX-License-Identifier: Apache-2.0
"""Pauses that the program makes on purpose: the diagnosis blames nobody for them."""
from __future__ import annotations

import functools
import math
import os
import threading
import time
from typing import Any

from ._errors import Error
from ._native import call
from .comm import living

_lock = threading.Lock()
_open: list[expect_pause] = []  # the latest last


def _forget() -> None:
    """In a forked child: pauses are the parent's, and one of its threads may have held the lock."""
    global _lock
    _lock = threading.Lock()
    _open.clear()


os.register_at_fork(after_in_child=_forget)


def _tell(what: str, seconds: int) -> None:
    """By any communicator: it is said of the process."""
    for comm in living():
        try:
            call("expect_pause", comm.handle, what.encode(), seconds)
            return
        except Error:
            continue


class expect_pause:
    """Tells the diagnosis that this process is outside of calls on purpose from now on, for `seconds` at most: to save
    a checkpoint, to evaluate. `what` is a word for people. 0 seconds: the pause is over. As a context manager:

        with tutti.expect_pause("checkpoint", 60):
            save()

    Without a communicator nothing is told."""

    def __init__(self, what: str = "", seconds: float = 600) -> None:
        self.what, self.ends = what, time.monotonic() + seconds
        if seconds < 0 or seconds > 7 * 24 * 3600:
            raise ValueError(f"seconds is {seconds}; want 0 to {7 * 24 * 3600}")
        _tell(what, math.ceil(seconds))

    def __enter__(self) -> expect_pause:
        with _lock:
            _open.append(self)
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        """The one around it goes on."""
        with _lock:
            if self in _open:  # else this is a forked child
                _open.remove(self)
            outer = _open[-1] if _open else None
        left = outer.ends - time.monotonic() if outer else 0
        _tell(outer.what if outer else "", max(0, math.ceil(left)))


def pausing(original: Any, what: str) -> Any:
    """The same function, which tells that it is a pause."""

    @functools.wraps(original)
    def pauses(*arguments: Any, **named: Any) -> Any:
        with expect_pause(what):
            return original(*arguments, **named)

    return pauses
