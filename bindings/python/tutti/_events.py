# SPDX-License-Identifier: Apache-2.0
"""What a program can hear besides the errors of its calls."""
from __future__ import annotations

import ctypes
import select
import time
from collections.abc import Iterator
from ctypes import byref, c_int, c_void_p
from dataclasses import dataclass

from ._errors import InvalidUsage, Result
from ._native import EventStruct, call, calls, check

KINDS = {1: "lost", 2: "failed", 3: "lane_down", 4: "lane_back", 5: "waiting", 6: "verdict",
         7: "verdict_over"}


@dataclass(frozen=True)
class Event:
    """kind: "lost" (a rank's process is gone), "failed" (a communicator), "lane_down", "lane_back", "waiting" (for a
    rank that lives, for TUTTI_EVENT_WAIT and longer), "verdict" (tutti master has found what the job suffers from, and
    tutti agent runs on this host), "verdict_over", or a number that this version does not know. rank and lane: -1
    where there is none. process: the peer's process id, or 0. time: as of time.time(). missed: events before this one
    that found no room. text: a sentence."""

    kind: str | int
    rank: int
    lane: int
    process: int
    missed: int
    time: float
    text: str


class Events:
    """Hears of all communicators of this process, from now on. Has a descriptor to poll (fileno()), which is readable
    while events wait:

        events = tutti.Events()
        loop.add_reader(events, lambda: print(events.next()))

    Iterating gives what has come, and ends. A forked child makes its own."""

    def __init__(self) -> None:
        handle, descriptor = c_void_p(), c_int()
        call("events_open", byref(handle), byref(descriptor))
        self.handle: c_void_p | None = handle
        self._descriptor = descriptor.value

    def __enter__(self) -> Events:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Hears nothing more. Does nothing the second time."""
        handle, self.handle = getattr(self, "handle", None), None
        if handle:
            call("events_close", handle)

    def _open(self) -> c_void_p:
        if not self.handle:
            raise InvalidUsage("these events were closed")
        return self.handle

    def fileno(self) -> int:
        self._open()
        return self._descriptor

    def next(self, timeout: float | None = 0) -> Event | None:
        """The oldest event; None: none came within `timeout` seconds (None: without limit)."""
        event = EventStruct(size=ctypes.sizeof(EventStruct))
        handle = self._open()
        until = None if timeout is None else time.monotonic() + timeout
        result = calls["events_next"](handle, byref(event))
        while result == Result.IN_PROGRESS and (left := 1.0 if until is None else until - time.monotonic()) > 0:
            poll = select.poll()  # what it tells of may turn out to be no event
            poll.register(self._descriptor, select.POLLIN)
            poll.poll(None if until is None else left * 1000)
            result = calls["events_next"](handle, byref(event))
        if result == Result.IN_PROGRESS:
            return None
        check(result)
        return Event(KINDS.get(event.kind, event.kind), event.rank, event.lane, event.process, event.missed,
                     event.time_ns / 1e9, event.text.decode(errors="replace"))

    def __iter__(self) -> Iterator[Event]:
        while (event := self.next()) is not None:
            yield event
