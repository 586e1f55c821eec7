# SPDX-License-Identifier: Apache-2.0
"""Groups: calls of a thread that are issued together."""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ._errors import error_of
from ._native import call, calls, check, last_error
from ._work import Work

if TYPE_CHECKING:
    from .comm import Communicator


class _Open(threading.local):
    """The group that this thread has open: one Work for each communicator that has calls in it."""

    depth = 0

    def __init__(self) -> None:
        self.works: dict[Communicator, Work] = {}
        self.waited: set[Work] = set()
        self.staged: set[Communicator] = set()


opened = _Open()


@contextlib.contextmanager
def group() -> Iterator[None]:
    """Calls inside are issued together at the end: sends and receives of one communicator run at the same time. All
    calls of a communicator in it share one Work. Calls that wait do so when the group ends. Groups nest."""
    call("group_start")
    opened.depth += 1
    try:
        yield
    except BaseException:
        calls["group_cancel"]()
        with contextlib.suppress(Exception):
            _end()
        raise
    for work in _end():
        work.wait()


def _end() -> set[Work]:
    """Ends the innermost group. The works to wait for, if that was the outermost."""
    opened.depth -= 1
    result = calls["group_end"]()
    if opened.depth:
        check(result)
        return set()
    works, waited, staged = opened.works, opened.waited, opened.staged
    opened.works, opened.waited, opened.staged = {}, set(), set()
    if result:
        error = error_of(result, last_error())
        for work in works.values():
            work.fail(error)
        raise error
    for comm in staged:
        comm.synchronize()
    return waited
