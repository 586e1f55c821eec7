# SPDX-License-Identifier: Apache-2.0
"""The backend "tutti" of torch.distributed: init_process_group("tutti"), or "cpu:tutti,cuda:nccl".

PyTorch calls autoload() at its own import where the package was installed by pip; without that, import this module.
"""
from __future__ import annotations

import functools
from typing import Any

import torch.distributed as dist

from . import alias, launched


def _make(store: Any, rank: int, size: int, timeout: Any) -> Any:
    from .group import TuttiGroup

    return TuttiGroup(store, rank, size, timeout)


def _monitored_barrier(original: Any) -> Any:
    """torch.distributed.monitored_barrier() refuses every backend but Gloo by name, before it asks the group:
    this asks ours."""

    @functools.wraps(original)
    def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        from .group import TuttiGroup

        asked = dist.distributed_c10d._get_default_group() if group is None else group
        if isinstance(asked, TuttiGroup):
            asked.monitored_barrier(timeout, wait_all_ranks)
        else:
            original(group, timeout, wait_all_ranks)

    return monitored_barrier


def autoload() -> None:
    """Makes the backend known to torch.distributed, once."""
    if not dist.is_available() or "TUTTI" in getattr(dist.Backend, "_plugins", {}):
        return
    try:
        dist.Backend.register_backend("tutti", _make, devices=["cpu", "cuda"])
    except TypeError:  # PyTorch 1
        dist.Backend.register_backend("tutti", _make)
    dist.register_rendezvous_handler(launched.SCHEME, launched.meet)
    wrapped = _monitored_barrier(dist.monitored_barrier)
    dist.monitored_barrier = dist.distributed_c10d.monitored_barrier = wrapped
    alias.install()


autoload()
