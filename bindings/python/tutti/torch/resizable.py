# SPDX-License-Identifier: Apache-2.0
"""A process group whose rank and size change while it lives. PyTorch asks the part of a backend that is in C++ for
both, which keeps the first ones; but it asks a process group of Python."""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from .backend import TuttiBackend


class ResizableGroup(dist.ProcessGroup):
    """What PyTorch makes of the backend, but for rank and size."""

    def __init__(self, store: Any, backend: TuttiBackend) -> None:
        dist.ProcessGroup.__init__(self, store, backend.rank(), backend.size())
        self._resized = backend
        kind = dist.ProcessGroup.BackendType.CUSTOM
        for device in ("cpu", "cuda"):
            self._register_backend(torch.device(device), kind, backend)
        self._set_default_backend(kind)

    def getRank(self) -> int:
        return self._resized.rank()

    def getSize(self) -> int:
        return self._resized.size()

    rank, size = getRank, getSize

    def reconfigure(self, opts: Any) -> Any:
        work = self._resized.reconfigure(opts)
        state = dist.distributed_c10d
        if self is state.GroupMember.WORLD:  # which numbers its ranks as it is numbered itself
            state._world.pg_group_ranks[self] = {rank: rank for rank in range(self.size())}
        return work


@functools.lru_cache(None)
def asked() -> bool:
    """Does this PyTorch's own code, in C++, ask a process group of Python for its size?"""

    class Probe(dist.ProcessGroup):
        def getSize(self) -> int:
            return 7

    return bool(dist.ProcessGroup.size(Probe(0, 1)) == 7)


def fits(opts: Any) -> bool:
    """Can the group of these options be one of these: is tutti its one backend?"""
    group = getattr(opts, "process_group", None)
    alone = group is None or group.name() == "custom" and not group._device_types
    return alone and asked()
