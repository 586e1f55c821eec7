# SPDX-License-Identifier: Apache-2.0
"""The backend "tutti" of torch.distributed: init_process_group("tutti"), or "cpu:tutti,cuda:nccl".

PyTorch calls autoload() at its own import where the package was installed by pip; without that, import this module.
"""
from __future__ import annotations

import functools
from typing import Any

try:
    import torch
    import torch.distributed as dist
except ImportError as error:
    raise ImportError("tutti.torch is a backend of PyTorch, which is not installed here: pip install torch, or "
                      f"apt-get install python3-torch ({error})") from error

from .._pause import pausing
from . import alias, launched
from .versions import PYTORCH_1, extends_backend, name_untested


def _make(store: Any, rank: int, size: int, timeout: Any) -> Any:
    """The older door."""
    from .group import TuttiGroup

    name_untested()
    return TuttiGroup(store, rank, size, timeout)


def _make_backend(opts: Any, backend_options: Any) -> Any:
    """The newer door."""
    from .backend import make

    name_untested()
    return make(opts, backend_options)


def _ours(group: Any) -> Any:
    """What does the work of this group, if that is tutti; else None."""
    from .mechanics import Mechanics

    if isinstance(group, Mechanics):
        return group
    try:
        backend = group._get_backend(torch.device("cpu"))
    except (AttributeError, RuntimeError):
        return None
    return backend if isinstance(backend, Mechanics) else None


def _monitored_barrier(original: Any) -> Any:
    """torch.distributed.monitored_barrier() refuses every backend but Gloo by name, before it asks the group:
    this asks ours."""

    @functools.wraps(original)
    def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        ours = _ours(dist.distributed_c10d._get_default_group() if group is None else group)
        if ours is not None:
            ours.monitored_barrier(timeout, wait_all_ranks)
        else:
            original(group, timeout, wait_all_ranks)

    return monitored_barrier


def _destroying(original: Any) -> Any:
    """PyTorch 1 forgets groups, and does not tell them: their threads would stay."""

    @functools.wraps(original)
    def destroy_process_group(group: Any = None) -> None:
        from .mechanics import Mechanics

        state = dist.distributed_c10d
        every = group is None or group is dist.GroupMember.WORLD
        ended = [one for one in (list(state._pg_map) if every else [group]) if isinstance(one, Mechanics)]
        original(group)
        for one in ended:
            one.shutdown()

    return destroy_process_group


def autoload() -> None:
    """Makes the backend known to torch.distributed, once."""
    if not dist.is_available() or "TUTTI" in getattr(dist.Backend, "_plugins", {}):
        return
    if extends_backend():
        dist.Backend.register_backend("tutti", _make_backend, extended_api=True, devices=["cpu", "cuda"])
    elif PYTORCH_1:
        dist.Backend.register_backend("tutti", _make)
    else:
        dist.Backend.register_backend("tutti", _make, devices=["cpu", "cuda"])
    dist.register_rendezvous_handler(launched.SCHEME, launched.meet)
    wrapped = _monitored_barrier(dist.monitored_barrier)
    dist.monitored_barrier = dist.distributed_c10d.monitored_barrier = wrapped
    if PYTORCH_1:
        destroy = _destroying(dist.destroy_process_group)
        dist.destroy_process_group = dist.distributed_c10d.destroy_process_group = destroy
    torch.save = pausing(torch.save, "torch.save")
    alias.install()


autoload()
