# SPDX-License-Identifier: Apache-2.0
"""What ranks leave for one another in the store of torch.distributed, so that others can look for it without waiting.

A rank that waits in the store keeps its other threads from using it; and PyTorch 1 cannot ask whether a key is there. A
counter beside it can be read at any time.
"""
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

FIRST_LOOK, LAST_LOOK = 0.0005, 0.02  # seconds between looks


def leave(store: Any, key: str, text: str) -> None:
    """Others find `text`."""
    store.set(key, text)
    store.add(f"{key}/left", 1)


def find(store: Any, key: str, go_on: Callable[[], bool]) -> str | None:
    """The text that a rank has left, or leaves while go_on(). None: nobody did."""
    pause = FIRST_LOOK
    while not store.add(f"{key}/left", 0):
        if not go_on():
            return None
        time.sleep(pause)
        pause = min(2 * pause, LAST_LOOK)
    return store.get(key).decode()
