# SPDX-License-Identifier: Apache-2.0
"""How the ranks of a process group meet: rank 0 leaves a meeting point in the store,
and goes there when all have said that they come.

The store may be older than the ranks: torchrun starts processes anew beside the store of those before, whose keys are
still there. So what ranks say is said for one meeting point,
and whoever finds that it was there in an earlier life waits for another one.
"""
from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any

from ..comm import unique_id
from .notes import LAST_LOOK, find, leave
from .work import BackendError

LOOK_FOR_ANOTHER = 0.2  # seconds between looks whether rank 0 has left another meeting point


def mark_of(identity: str) -> str:
    """A short name of a meeting point, for keys."""
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


class _Meeting:
    def __init__(self, store: Any, place: str, rank: int, size: int, seconds: float) -> None:
        self.store, self.place, self.rank, self.size, self.seconds = store, place, rank, size, seconds
        self.deadline = time.monotonic() + seconds

    def in_time(self) -> bool:
        return time.monotonic() < self.deadline

    def here(self, identity: str, rank: int) -> str:
        return f"{self.place}/{mark_of(identity)}/here/{rank}"

    def go(self, identity: str) -> str:
        return f"{self.place}/{mark_of(identity)}/go"

    def missing(self, rank: int) -> BackendError:
        return BackendError(f"tutti: rank {rank} has not come to the process group of {self.size} ranks: Timed out "
                            f"after {self.seconds * 1000:.0f} ms on rank {self.rank}")

    def invite(self) -> str:
        """Rank 0's part."""
        identity = unique_id().hex()
        leave(self.store, f"{self.place}/id", identity)
        for rank in range(1, self.size):
            if find(self.store, self.here(identity, rank), self.in_time) is None:
                raise self.missing(rank)
        leave(self.store, self.go(identity), "all")
        return identity

    def look(self, stale: str | None) -> str | None:
        """The meeting point that rank 0 has left, unless that is `stale`."""
        while (identity := find(self.store, f"{self.place}/id", self.in_time)) == stale and self.in_time():
            time.sleep(LAST_LOOK)
        return identity if identity != stale else None

    def still(self, identity: str) -> Callable[[], bool]:
        """Is there time, and no other meeting point? The store is asked now and then."""
        next_look = time.monotonic()

        def go_on() -> bool:
            nonlocal next_look
            if time.monotonic() < next_look:
                return self.in_time()
            next_look = time.monotonic() + LOOK_FOR_ANOTHER
            return self.in_time() and self.store.get(f"{self.place}/id").decode() == identity

        return go_on

    def come(self) -> str:
        """The others' part."""
        identity = None
        while self.in_time() and (identity := self.look(identity)) is not None:
            mine = self.here(identity, self.rank)
            self.store.set(mine, "here")
            if (self.store.add(f"{mine}/left", 1) == 1
                    and find(self.store, self.go(identity), self.still(identity)) is not None):
                return identity
        absent = [rank for rank in range(1, self.size)
                  if identity and not self.store.add(f"{self.here(identity, rank)}/left", 0)]
        raise self.missing(absent[0] if absent else 0)


def meet(store: Any, place: str, rank: int, size: int, seconds: float) -> str:
    """The meeting point at which all ranks are, for init_rank(); an error that names who has not come in time."""
    meeting = _Meeting(store, place, rank, size, seconds)
    return meeting.invite() if rank == 0 else meeting.come()
