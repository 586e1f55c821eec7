# SPDX-License-Identifier: Apache-2.0
"""Windows of torch.distributed: a tensor of each rank, to which the others put. PyTorch's class can be extended in C++
alone, and its process groups ask C++ for one. So their call in Python is replaced here, for groups that tutti serves,
and what it returns has that class's methods."""
from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from .._errors import Error
from .._native import HOST
from .._window import Window as Registered
from .._work import Work as Issued
from ..comm import Communicator
from .guard import guard
from .work import BackendError, Collective, failure, timed_out

if TYPE_CHECKING:
    from .backend import TuttiBackend


class Window:
    """Its communicator is its own. So its signals are no other window's, and a wait that is given up ends nothing
    else. The group knows it by the window, ends it with the others, and keeps the tensor until then."""

    def __init__(self, group: TuttiBackend, tensor: torch.Tensor | None = None) -> None:
        self._group = group
        self._tensor: torch.Tensor | None = None
        self._comm: Communicator | None = None
        self._window: Registered | None = None
        if tensor is not None:
            self.tensor_register(tensor)

    def tensor_register(self, tensor: torch.Tensor, owning: bool = True) -> None:
        """Collective. The tensor is kept until it is deregistered, whether or not the window is `owning`."""
        if self._window is not None:
            raise ValueError("tutti: tensor_register: the window has a tensor; deregister that first")
        if tensor.device.type != "cpu":
            raise ValueError(f"tutti: tensor_register: windows are on CPUs, and the tensor is on {tensor.device}")
        parent = self._group._comm(HOST)
        self._group._sequence += 1
        name = f"{parent.name}-window-{self._group._sequence}"
        comm = self._limited("tensor_register", parent, lambda: parent.duplicate(name=name))
        comm.name = name
        self._group._comms[self] = self._comm = comm
        self._window = self._limited("tensor_register", comm, lambda: comm.window(tensor))
        self._tensor = tensor

    def tensor_deregister(self) -> None:
        """Collective: what any rank has put is there, and nothing comes any more."""
        window, comm, _ = self._open("tensor_deregister")
        self._tensor = self._window = self._comm = None
        try:
            self._limited("tensor_deregister", comm, window.close)
        finally:
            self._limited("tensor_deregister", comm, comm.destroy)
            self._group._comms.pop(self, None)

    def put(self, tensor: torch.Tensor, dst_rank: int, target_offset_nelems: int, async_op: bool,
            opts: Any = None) -> Any:
        """To the elements of `dst_rank`'s tensor from that one on. When the work has ended, `tensor` may be written
        again; that it has arrived, a signal behind it says."""
        window, _, mine = self._open("put")
        if tensor.dtype != mine.dtype:
            raise ValueError(f"tutti: put: the tensor is of {tensor.dtype}, and the window of {mine.dtype}")
        offset = target_offset_nelems * mine.element_size()
        return self._issue("put", opts, async_op, lambda: window.put(tensor, dst_rank, offset, wait=False))

    def signal(self, peer_rank: int, async_op: bool, opts: Any = None) -> Any:
        """Behind all that this rank has put there before."""
        _, comm, _ = self._open("signal")
        return self._issue("signal", opts, async_op, lambda: comm.signal(peer_rank, wait=False))

    def wait_signal(self, peer_rank: int, async_op: bool, opts: Any = None) -> Any:
        """One more signal of `peer_rank` than was waited for before."""
        _, comm, _ = self._open("wait_signal")
        return self._issue("wait_signal", opts, async_op, lambda: comm.wait_signal(peer_rank, wait=False))

    def map_remote_tensor(self, rank: int) -> torch.Tensor:
        """The elements of `rank`'s tensor, in a row, where its memory is mapped here: this rank's own, and memory of
        tutti.alloc() on this host."""
        window, _, mine = self._open("map_remote_tensor")
        try:
            memory = window.memory(rank)
        except Error as error:
            raise failure(error) from None
        if memory is None:
            raise BackendError(f"tutti: map_remote_tensor: the memory of rank {rank} is not mapped here: it is of "
                               "another host, or not of tutti.alloc()")
        return torch.frombuffer(memory, dtype=mine.dtype)

    def get_attr(self, peer_rank: int) -> Any:
        """There is one memory, which processor and network see alike."""
        self._open("get_attr")
        attributes = torch._C._distributed_c10d.WindowAttr()
        attributes.access_type = torch._C._distributed_c10d.WindowAccessType.UNIFIED
        return attributes

    # ---- What calls have in common ----

    def _open(self, name: str) -> tuple[Registered, Communicator, torch.Tensor]:
        if self._window is None or self._comm is None or self._tensor is None:
            raise ValueError(f"tutti: {name}: the window has no tensor; register one first")
        return self._window, self._comm, self._tensor

    def _limited(self, name: str, comm: Communicator, call: Callable[[], Any]) -> Any:
        """A call that waits for all ranks: given up when the group's time is up."""
        seconds = self._group._timeout.total_seconds()
        number, expired = guard.arm(seconds, comm.abort)
        try:
            return call()
        except Error as error:
            raise timed_out(name, seconds) if expired else failure(error) from None
        finally:
            guard.disarm(number)

    def _issue(self, name: str, opts: Any, async_op: bool, issue: Callable[[], Issued]) -> Any:
        asked, comm = getattr(opts, "timeout", None), self._comm
        assert comm is not None
        timeout = asked if asked is not None and asked > timedelta(0) else self._group._timeout
        try:
            issued = issue()
        except Error as error:
            raise failure(error) from None
        work = Collective(name, [issued], [], timeout, self._group._limit(comm), self._group._follower)
        if not async_op:
            work.wait()
        return work


def _server(group: Any, tensor: torch.Tensor | None, kind: type) -> Any:
    """What does the group's work for that tensor, or for all, if that is tutti; else None."""
    devices = group._device_types if tensor is None else [tensor.device]
    found = [group._get_backend(device) for device in devices]
    return found[0] if found and all(isinstance(backend, kind) for backend in found) else None


def teach_groups(kind: type) -> None:
    """Groups of which `kind` does the work make windows of this module; of a PyTorch that has windows."""
    original = getattr(dist.ProcessGroup, "new_window", None)
    if original is None:
        return

    @functools.wraps(original)
    def new_window(self: Any, tensor: torch.Tensor | None = None) -> Any:
        backend = _server(self, tensor, kind)
        return original(self, tensor) if backend is None else Window(backend, tensor)

    dist.ProcessGroup.new_window = new_window
