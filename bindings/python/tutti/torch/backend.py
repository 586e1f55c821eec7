# SPDX-License-Identifier: Apache-2.0
"""The door for versions of PyTorch whose class Backend Python can extend, from 2.14 on. PyTorch makes the process
group, registers this for its devices, and does the rest itself: hooks, its Flight Recorder, splits, checkpoints."""
from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d
from torch._C._distributed_c10d import Backend, Work

from . import resizable
from .mechanics import Mechanics
from .window import teach_groups
from .work import Operation, operation_of

SHRINK_ABORT = 1  # what is under way is given up first
TOLD = ("is_completed", "is_success", "exception", "result", "source_rank", "_source_rank", "synchronize")


class Done(Operation):
    """Something that has ended when it is returned."""

    def _finish(self, seconds: float) -> None:
        pass

    def _ended(self) -> bool:
        return True

    def _follow(self) -> None:
        self.complete()


class TuttiBackend(Mechanics, Backend):
    """The backend."""

    resizable = False  # does PyTorch ask it for its rank and size whenever it needs them?

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, wait_for_peers: bool = False) -> None:
        Backend.__init__(self, rank, size)
        self._handle = f"tutti-{rank:08d}-{uuid.uuid4().hex}"  # sorted as ranks are
        self._first_store = store
        _alive.add(self)
        if wait_for_peers:
            self._prepare(store, rank, size, timeout)
        else:
            self._begin(store, rank, size, timeout)

    def shutdown(self) -> None:
        _alive.discard(self)
        super().shutdown()

    def getBackendName(self) -> str:
        return "tutti"

    def rank(self) -> int:
        return self._my_rank

    def size(self) -> int:
        return self._my_size

    @property
    def options(self) -> Any:
        return Backend.Options("tutti", self._timeout)

    def perform_nocolor_split(self, device: torch.device) -> None:
        """Ranks outside a new group have no part in making it."""

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def get_error(self) -> Any:
        kinds = _distributed_c10d.ErrorType
        failed = any(comm.handle and comm.error is not None for of, comm in self._comms.items() if isinstance(of, int))
        return kinds.COMM_ERROR if failed else kinds.SUCCESS

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout

    _set_default_timeout = set_timeout

    # ---- Several at once: PyTorch gives a work for each message of a batch, as with Gloo ----

    @property
    def supports_coalescing(self) -> bool:
        return False

    def start_coalescing(self) -> None:
        self._start_coalescing()

    def end_coalescing(self) -> Any:
        return self._end_coalescing()

    # ---- Other groups ----

    @property
    def supports_splitting(self) -> bool:
        return True

    def split(self, store: Any, ranks: Sequence[int], opts: Any) -> TuttiBackend:
        timeout = getattr(opts, "_timeout", self._timeout)
        return TuttiBackend(store, list(ranks).index(self._my_rank), len(ranks), timeout)

    @property
    def supports_window(self) -> bool:
        return True  # window.py

    @property
    def supports_time_estimate(self) -> bool:
        return False

    _supports_time_estimate = supports_time_estimate

    @property
    def supports_shrinking(self) -> bool:
        return True

    def shrink(self, ranks_to_exclude: Sequence[int], shrink_flags: int = 0, opts_override: Any = None) -> TuttiBackend:
        """The group of those that are left, which alone call it; the others may be dead."""
        left = [rank for rank in range(self._my_size) if rank not in set(ranks_to_exclude)]
        if shrink_flags & SHRINK_ABORT:
            self.abort()
        timeout = self._timeout if opts_override is None else opts_override._timeout
        store = dist.PrefixStore("left/" + "/".join(map(str, left)), self._store)
        return TuttiBackend(store, left.index(self._my_rank), len(left), timeout)

    @property
    def supports_reconfigure(self) -> bool:
        return True

    def get_reconfigure_handle(self) -> str:
        return self._handle

    def reconfigure(self, opts: Any) -> Any:
        """The ranks of the handles meet anew, and are numbered as those are. What the group had is given up first,
        without waiting for anybody. If that fails, the group has its old rank and size, and may try again."""
        rank, size = self._place(opts)
        old, usual, hooks = (self._my_rank, self._my_size), self._timeout, self._abort_hooks
        if (rank, size) != old and not self.resizable:
            raise NotImplementedError(f"tutti: reconfigure: this would be rank {rank} of {size}, but the group stays "
                                      f"rank {old[0]} of {old[1]}: it takes PyTorch 2.15, enable_reconfigure=True and "
                                      "no backend beside tutti to change that")
        store = self._claim(opts.uuid, rank)
        self._give_up()
        Mechanics.shutdown(self)
        try:
            self._begin(store, rank, size, opts.timeout if opts.timeout is not None else usual)
        except Exception:
            self._my_rank, self._my_size = old
            raise
        finally:
            self._abort_hooks, self._timeout = hooks, usual
        return Done("reconfigure", [], usual)

    def _place(self, opts: Any) -> tuple[int, int]:
        """Rank and size, by the handles."""
        handles = opts.handles if isinstance(opts.handles, list) else sorted(opts.handles)
        if len(set(handles)) != len(handles):
            raise ValueError("tutti: reconfigure: a handle is twice among the handles")
        if self._handle not in handles:
            raise ValueError(f"tutti: reconfigure: none of the {len(handles)} handles is this rank's own, which "
                             "get_reconfigure_handle() returns")
        return handles.index(self._handle), len(handles)

    def _claim(self, uuid: int, rank: int) -> Any:
        """The store of one reconfiguration, in which nothing of another one must be."""
        store = dist.PrefixStore(f"again/{uuid}", self._first_store)
        if store.add(self._handle, 1) > 1 or (rank == 0 and store.add("all", 1) > 1):
            raise RuntimeError(f"tutti: reconfigure: uuid {uuid} was already used in this store: each takes a new one")
        return store

    def merge(self, *_: Any) -> Any:
        raise NotImplementedError("tutti: merge_remote_group: not supported; use new_group()")

    # ---- Hooks ----

    @property
    def supports_abort_hooks(self) -> bool:
        return True

    def registerAbortHook(self, hook_id: int, hook: Callable[[], None]) -> None:
        self._abort_hooks[hook_id] = hook

    def unregisterAbortHook(self, hook_id: int) -> None:
        self._abort_hooks.pop(hook_id, None)

    register_abort_hook, unregister_abort_hook = registerAbortHook, unregisterAbortHook

    def allreduce_sparse(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        return self.allreduce(tensors, opts)


# What C++ alone holds, as the wrapper does that TORCH_DISTRIBUTED_DEBUG=DETAIL brings, would lose its part in Python.
_alive: set[TuttiBackend] = set()


def make(opts: Any, _: Any) -> Any:
    """What PyTorch calls for each group."""
    changes = getattr(opts, "enable_reconfigure", False)
    backend = TuttiBackend(opts.store, opts.group_rank, opts.group_size, opts.timeout, changes)
    backend.resizable = changes and resizable.fits(opts)
    return resizable.ResizableGroup(opts.store, backend) if backend.resizable else backend


def _telling(name: str) -> Any:
    original, get_future = getattr(Work, name), Work.get_future

    @functools.wraps(original)
    def tell(self: Work, *arguments: Any) -> Any:
        if type(self) is Work and self._get_op_type() == UNKNOWN:
            operation = operation_of(self, get_future)
            if operation is not None:
                return getattr(operation, name)(*arguments)
        return original(self, *arguments)

    return tell


UNKNOWN = Work()._get_op_type() if hasattr(Work, "_get_op_type") else None


def teach_works() -> None:
    """PyTorch puts the work of a backend in Python into one of C++, which passes on wait and the future alone, and
    would say for ever that it has not completed. This asks the work inside."""
    for name in TOLD:
        if UNKNOWN is not None and hasattr(Work, name):
            setattr(Work, name, _telling(name))


teach_works()
teach_groups(TuttiBackend)
