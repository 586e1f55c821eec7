# SPDX-License-Identifier: Apache-2.0
"""Limits of time. Who waits in the library cannot look at a clock:
one thread of the process gives the communicator up for him."""
from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

STEP = 0.05  # seconds between looks, while anybody waits


class _Limit(NamedTuple):
    deadline: float
    give_up: Callable[[], None]
    expired: list[bool]


class Guard:
    """Calls what it was armed with when the time has passed."""

    def __init__(self) -> None:
        self._limits: dict[int, _Limit] = {}
        self._numbers = itertools.count()
        self._busy = threading.Event()
        self._thread: threading.Thread | None = None

    def arm(self, seconds: float, give_up: Callable[[], None]) -> tuple[int, list[bool]]:
        """A number to disarm by, and a list that is no longer empty when the time was up."""
        number, expired = next(self._numbers), []  # type: ignore[var-annotated]
        self._limits[number] = _Limit(time.monotonic() + seconds, give_up, expired)
        if not self._busy.is_set():
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, name="tutti guard", daemon=True)
                self._thread.start()
            self._busy.set()
        return number, expired

    def disarm(self, number: int) -> None:
        """It has ended in time."""
        self._limits.pop(number, None)

    def _watch(self) -> None:
        while True:
            self._busy.wait()
            while self._limits:
                now = time.monotonic()
                for number, limit in list(self._limits.items()):
                    if now >= limit.deadline and self._limits.pop(number, None):
                        limit.expired.append(True)
                        limit.give_up()
                time.sleep(STEP)
            self._busy.clear()
            if self._limits:  # armed meanwhile
                self._busy.set()


guard = Guard()
