# SPDX-License-Identifier: Apache-2.0
"""Who is late, when the time of an operation is up: what `tutti diagnose` says of the communicator, before that is
given up. The first rank that asks leaves the answer in the store, for those whose operations end by its giving up."""
from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from ..comm import Communicator
from ..run import program
from .meeting import mark_of
from .notes import leave

PATIENCE = 5.0  # seconds for the answer
APART = "200ms"  # between its two looks
STUCK = 0.25  # part of the time: a rank that sleeps outside of calls is named after three times that
LEAST = 0.1  # seconds of a wait that are called late


def name_of(identity: str) -> str:
    """The name of the communicator of this meeting point, by which its verdicts are found."""
    return f"torch-{mark_of(identity)[:8]}"


def diagnose(comm: Communicator, seconds: float) -> str:
    """The sentence of the first finding about this communicator; "": there is none, or nobody to ask."""
    command = [program(), "diagnose", "--json", "--apart", APART, "--stuck",
               f"{max(seconds * STUCK, LEAST) * 1000:.0f}ms", comm.name]
    try:
        answer = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
        findings = json.loads(answer.stdout)["findings"]
        return findings[0]["text"] if findings else ""
    except (OSError, ValueError, KeyError, subprocess.SubprocessError):
        return ""


class Limit:
    """What happens when an operation's time is up: the culprit is found, hooks are called, the communicator is
    aborted."""

    def __init__(self, comm: Communicator, store: Any, hooks: Sequence[Callable[[], None]] = ()) -> None:
        self._comm, self._store, self._hooks = comm, store, hooks
        self.culprit = ""

    def _key(self) -> str:
        return f"late/{self._comm.name}"

    def expire(self, seconds: float) -> None:
        """Any thread may call it."""
        self.culprit = diagnose(self._comm, seconds)
        with contextlib.suppress(Exception):  # the store's rank may have gone
            if self.culprit:
                leave(self._store, self._key(), self.culprit)
            else:
                self.culprit = self._left()
        try:
            for hook in self._hooks:
                hook()
        finally:
            self._comm.abort()

    def _left(self) -> str:
        """What another rank has left that gave the communicator up."""
        return self._store.get(self._key()).decode() if self._store.add(f"{self._key()}/left", 0) else ""

    def left(self, error: Exception) -> str:
        """The same, if that is what the error says."""
        with contextlib.suppress(Exception):
            return self._left() if "aborted by rank" in str(error) else ""
        return ""
