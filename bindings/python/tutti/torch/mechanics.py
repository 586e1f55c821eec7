# SPDX-License-Identifier: Apache-2.0
"""What a process group of torch.distributed does over tutti. PyTorch comes in by one of two doors: group.py,
backend.py."""
from __future__ import annotations

import atexit
import collections
import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .._errors import Error
from .._group import group as together
from .._native import HOST
from .._work import Work as Issued
from ..comm import Communicator, init_rank
from . import late, others, reductions
from .calls import Here, call
from .channel import Message, Messages
from .cuda import Lane, Queued, device_of, queue
from .guard import guard
from .meeting import mark_of, meet
from .versions import PYTORCH_1
from .work import BackendError, Collective, Follower, Operation, Several, failure, timed_out

Tensors = list[torch.Tensor]
KEPT = 64  # latest works that are kept alive under PyTorch 1, which drops those of Python that its own code waits for
LIBRARY_PATIENCE = 30.0  # seconds: TUTTI_TIMEOUT's default


@contextlib.contextmanager
def _recorded(name: str, tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """An event of PyTorch's profiler, while one runs."""
    if torch.autograd._profiler_enabled():
        with torch.autograd.profiler.record_function(f"tutti:{name}"):
            yield
    else:
        yield


def _check_memory(tensor: torch.Tensor) -> None:
    """Raises what PyTorch's users know, where the elements of a tensor cannot be sent as they lie."""
    if tensor.device.type not in ("cpu", "cuda"):
        raise ValueError(f"Tensors must be on a CPU or a GPU of CUDA: one is on {tensor.device}")
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise ValueError(f"Tensors must be dense and not quantized: one is {tensor.layout}, {tensor.dtype}")
    if not tensor.is_contiguous():
        raise ValueError(f"Tensors must be contiguous: one has shape {tuple(tensor.shape)} and strides "
                         f"{tensor.stride()}")
    if tensor.is_conj() or tensor.is_neg():
        raise ValueError("Tensors must hold their values: one is conjugated or negated when it is read; use "
                         "resolve_conj() or resolve_neg()")


class Mechanics:
    """A rank's end of a process group. Collectives run in the order of their calls;
    messages beside them (channel.py)."""

    def _begin(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        """All ranks meet."""
        self._prepare(store, rank, size, timeout)
        self._open()

    def _prepare(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        self._store, self._my_rank, self._my_size, self._timeout = store, rank, size, timeout
        self._kept: collections.deque[Any] = collections.deque(maxlen=KEPT)
        self._sequence = 0
        self._barriers = 0
        self._here = Here()
        self._abort_hooks: dict[int, Callable[[], None]] = {}
        self._comms: dict[Any, Communicator] = {}  # by device, or window
        self._lanes: dict[int, Lane] = {}
        self._messages: dict[int, Messages] = {}
        self._follower = Follower()
        _living.add(self)

    def _open(self) -> None:
        self._comm(HOST)
        self._messages[HOST] = Messages(self._store, self._my_rank, self._my_size)

    # ---- Communicators ----

    def _comm(self, device: int) -> Communicator:
        """The communicator for the memory of `device`, made at the first use."""
        comm = self._comms.get(device)
        if comm is None:
            comm = self._comms[device] = self._meet("host" if device == HOST else "cuda", device)
            if device != HOST:
                self._lanes[device] = Lane(comm)
        return comm

    def _meet(self, place: str, device: int) -> Communicator:
        seconds = self._timeout.total_seconds()
        try:
            identity = meet(self._store, place, self._my_rank, self._my_size, seconds)
            if not self._comms:  # what is left in the store from now on is these processes'
                self._store = dist.PrefixStore(mark_of(identity), self._store)
            return init_rank(self._my_size, bytes.fromhex(identity), self._my_rank,
                             timeout=min(seconds, LIBRARY_PATIENCE), name=late.name_of(identity), device=device)
        except Error as error:
            raise failure(error) from None

    def _of(self, tensors: Sequence[torch.Tensor]) -> Communicator:
        """The communicator for these tensors, which must be of one device, dense and contiguous."""
        for tensor in tensors:
            _check_memory(tensor)
        device = tensors[0].device
        return self._comm(HOST if device.type == "cpu" else device.index)

    def _run(self, name: str, tensors: Sequence[torch.Tensor], results: Sequence[torch.Tensor], options: Any,
             issue: Callable[[Communicator, dict[str, Any]], Any],
             after: Callable[[], None] | None = None) -> Operation:
        """Issues what `issue` calls on the communicator, and makes the work of that."""
        asked = getattr(options, "timeout", None)
        timeout = asked if asked is not None and asked > timedelta(0) else self._timeout
        self._sequence += 1
        with _recorded(name, tensors):
            comm = self._of(tensors) if tensors else self._comm(HOST)
            try:
                if comm.device != HOST:
                    return self._queue(comm, name, tensors, results, timeout, issue, after)
                issued = issue(comm, {"wait": False})
            except Error as error:
                raise failure(error) from None
        works: Sequence[Issued] = [issued] if isinstance(issued, Issued) else issued
        work = Collective(name, works, results, timeout, self._limit(comm), self._follower, after)
        if PYTORCH_1:
            self._kept.append(work)
        return work

    def _limit(self, comm: Communicator) -> late.Limit:
        return late.Limit(comm, self._store, list(self._abort_hooks.values()))

    def _queue(self, comm: Communicator, name: str, tensors: Sequence[torch.Tensor], results: Sequence[torch.Tensor],
               timeout: timedelta, issue: Callable[[Communicator, dict[str, Any]], Any],
               after: Callable[[], None] | None = None, for_hosts: bool = False) -> Queued:
        """The same on a GPU: on the stream of its communicator."""
        lane = self._lanes[comm.device]
        number, expired = guard.arm(timeout.total_seconds(), lane.abort) if comm.staged else (-1, [])
        try:
            work = queue(lane, name, tensors, results, timeout,
                         lambda: issue(comm, {"wait": False, "stream": lane.stream.cuda_stream}), after,
                         self._follower if for_hosts else None)
        except Error as error:
            raise timed_out(name, timeout.total_seconds()) if expired else failure(error) from None
        finally:
            guard.disarm(number)
        return work

    # ---- Reductions ----

    @call(results=True)
    def allreduce(self, tensors: Tensors, opts: Any = None) -> Any:
        opts = opts or dist.AllreduceOptions()
        tensor, = tensors
        if tensor.is_sparse:
            return others.sparse(self, tensor, opts)
        reduction = reductions.choose(opts.reduceOp, tensor)
        if reduction.name is None:
            return others.by_gathering(self, tensor, reduction, opts)
        return self._run("all_reduce", [tensor], [tensor], opts,
                         lambda comm, how: comm.allreduce(reduction.seen(tensor), op=reduction.name, **how))

    @call(results=True)
    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Any:
        return self._many([self.allreduce([tensor], opts) for tensor in tensors], tensors)

    @call(results=True)
    def reduce(self, tensors: Tensors, opts: Any) -> Any:
        tensor, = tensors
        reduction = reductions.choose(opts.reduceOp, tensor)
        if reduction.name is None:
            return others.by_gathering(self, tensor, reduction, opts, opts.rootRank)
        return self._run("reduce", [tensor], [tensor], opts, lambda comm, how: comm.reduce(
            reduction.seen(tensor), op=reduction.name, root=opts.rootRank, **how))

    @call(results=True)
    def _reduce_scatter_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Any:
        opts = opts or dist.ReduceScatterOptions()
        reduction = reductions.choose(opts.reduceOp, input)
        if reduction.name is None:
            return others.scatter_by_gathering(self, output, input, reduction, opts)
        return self._run("_reduce_scatter_base", [output, input], [output], opts, lambda comm, how: comm.reduce_scatter(
            reduction.seen(input), reduction.seen(output), op=reduction.name, **how))

    reduce_scatter_tensor = reduce_scatter_single = _reduce_scatter_base

    @call(results=True)
    def reduce_scatter(self, output_tensors: Tensors, input_tensors: list[Tensors], opts: Any = None) -> Any:
        opts = opts or dist.ReduceScatterOptions()
        output, inputs = output_tensors[0], input_tensors[0]
        others.one_each(inputs, self._my_size, "reduce_scatter: the list of inputs")
        if all(part.numel() == output.numel() for part in inputs):
            return self._reduce_scatter_base(output, others.flat(inputs), opts)
        return others.reduce_to_each(self, output, inputs, opts)

    @call(results=True)
    def reduce_scatter_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        return self._many([self._reduce_scatter_base(*pair, opts) for pair in zip(outputs, inputs)], outputs)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    # ---- Movements ----

    @call(results=True)
    def broadcast(self, tensors: Tensors, opts: Any) -> Any:
        tensor, = tensors
        return self._run("broadcast", [tensor], [tensor], opts,
                         lambda comm, how: comm.broadcast(tensor, opts.rootRank, **how))

    @call(results=True)
    def _allgather_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Any:
        return self._run("_all_gather_base", [input, output], [output], opts,
                         lambda comm, how: comm.allgather(input, output, **how))

    all_gather_single = _allgather_base

    @call(results=True)
    def allgather(self, output_tensors: list[Tensors], input_tensors: Tensors, opts: Any = None) -> Any:
        outputs, tensor = output_tensors[0], input_tensors[0]
        others.one_each(outputs, self._my_size, "all_gather: the list of outputs")
        if any(part.numel() != tensor.numel() for part in outputs):
            return others.broadcast_from_each(self, outputs, tensor, opts)
        whole, after = others.collected(outputs)
        return self._run("all_gather", [tensor], outputs, opts,
                         lambda comm, how: comm.allgather(tensor, whole, **how), after)

    @call(results=True)
    def allgather_coalesced(self, output_lists: list[Tensors], input_list: Tensors, opts: Any = None) -> Any:
        works = [self.allgather([[outputs[i] for outputs in output_lists]], [tensor], opts)
                 for i, tensor in enumerate(input_list)]
        return self._many(works, [tensor for outputs in output_lists for tensor in outputs])

    @call(results=True)
    def allgather_into_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        return self._many([self._allgather_base(*pair, opts) for pair in zip(outputs, inputs)], outputs)

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    @call(results=True)
    def gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> Any:
        root = opts.rootRank
        if self._my_rank != root:
            return self._run("gather", [input], [], opts, lambda comm, how: comm.gather(input, root=root, **how))
        return self._run("gather", [input, output], [output], opts,
                         lambda comm, how: comm.gather(input, output, root, **how))

    gather_into_tensor = gather_single

    @call(results=True)
    def gather(self, output_tensors: list[Tensors], input_tensors: Tensors, opts: Any) -> Any:
        tensor, = input_tensors
        if self._my_rank != opts.rootRank:
            return self._run("gather", [tensor], [], opts,
                             lambda comm, how: comm.gather(tensor, root=opts.rootRank, **how))
        outputs = output_tensors[0]
        others.one_each(outputs, self._my_size, "gather: the list of outputs")
        others.same_sizes(outputs, tensor)
        whole, after = others.collected(outputs)
        return self._run("gather", [tensor], outputs, opts,
                         lambda comm, how: comm.gather(tensor, whole, opts.rootRank, **how), after)

    @call(results=True)
    def scatter(self, output_tensors: Tensors, input_tensors: list[Tensors], opts: Any) -> Any:
        output, = output_tensors
        if self._my_rank != opts.rootRank:
            return self._run("scatter", [output], [output], opts,
                             lambda comm, how: comm.scatter(None, output, opts.rootRank, **how))
        others.one_each(input_tensors[0], self._my_size, "scatter: the list of inputs")
        others.same_sizes(input_tensors[0], output)
        whole = others.flat(input_tensors[0])
        return self._run("scatter", [output], [output], opts,
                         lambda comm, how: comm.scatter(whole, output, opts.rootRank, **how))

    @call(results=True)
    def alltoall_base(self, output: torch.Tensor, input: torch.Tensor, output_split_sizes: list[int],
                      input_split_sizes: list[int], opts: Any = None) -> Any:
        if not output_split_sizes and not input_split_sizes:
            return self._run("all_to_all", [input, output], [output], opts,
                             lambda comm, how: comm.alltoall(input, output, **how))
        sends, receives = (others.rows(input, input_split_sizes, self._my_size),
                           others.rows(output, output_split_sizes, self._my_size))
        return self._run("all_to_all", [input, output], [output], opts, lambda comm, how: comm.alltoallv(
            input, sends, output, receives, **how))

    all_to_all_single = alltoall_base

    @call(results=True)
    def alltoall(self, output_tensors: Tensors, input_tensors: Tensors, opts: Any = None) -> Any:
        others.one_each(output_tensors, self._my_size, "all_to_all: the list of outputs")
        others.one_each(input_tensors, self._my_size, "all_to_all: the list of inputs")

        def issue(comm: Communicator, how: dict[str, Any]) -> list[Issued]:
            works = []
            with together():
                for peer, (there, here) in enumerate(zip(output_tensors, input_tensors)):
                    if here.numel():
                        works.append(comm.send(here, peer, **how))
                    if there.numel():
                        works.append(comm.recv(there, peer, **how))
            return list(set(works))
        return self._run("all_to_all", [*input_tensors, *output_tensors], output_tensors, opts, issue)

    @call(results=False)
    def barrier(self, opts: Any = None) -> Any:
        device = device_of(opts)
        if device is not None:  # behind what the current streams of all ranks have to do
            self._sequence += 1
            return self._queue(self._comm(device.index), "barrier", [], [], self._timeout,
                               lambda comm, how: comm.barrier(**how), for_hosts=True)
        return self._run("barrier", [], [], opts, lambda comm, how: comm.barrier(**how))

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        timeout = getattr(timeout, "timeout", timeout)  # PyTorch's own code gives BarrierOptions
        self._barriers += 1
        limit = (self._timeout if timeout is None else timeout if isinstance(timeout, timedelta)
                 else timedelta(seconds=timeout))
        others.monitored_barrier(self, limit, wait_all_ranks, f"monitored/{self._barriers}")

    # ---- Messages ----

    def _message(self, name: str, tensors: Tensors, tag: int, peer: int | None = None) -> Message:
        tensor, = tensors
        _check_memory(tensor)
        if peer is not None and not 0 <= peer < self._my_size:
            raise BackendError(f"tutti: {name}: rank {peer} is not in this process group of {self._my_size} ranks")
        if peer == self._my_rank:
            raise BackendError(f"tutti: {name}: rank {peer} is this rank itself; messages go to other ranks")
        with _recorded(name, tensors):
            return Message(name, tensor, tag, self._timeout, peer)

    def _messages_of(self, tensors: Tensors) -> Messages:
        """Those of tensors on the CPU, or on one GPU."""
        device = tensors[0].device
        place = HOST if device.type == "cpu" else device.index
        if place not in self._messages:
            store = dist.PrefixStore("cuda", self._store)
            self._messages[place] = Messages(store, self._my_rank, self._my_size, place)
        return self._messages[place]

    @call(results=False)
    def send(self, tensors: Tensors, peer: int, tag: int = 0) -> Any:
        message = self._message("send", tensors, tag, peer)
        return self._messages_of(tensors).send(message, peer)

    @call(results=True)
    def recv(self, tensors: Tensors, peer: int, tag: int = 0) -> Any:
        message = self._message("recv", tensors, tag, peer)
        return self._messages_of(tensors).recv(message)

    @call(results=True)
    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Any:
        message = self._message("recvAnySource", tensors, tag)
        return self._messages_of(tensors).recv(message)

    # ---- Several at once ----

    def _many(self, works: list[Any], results: Sequence[torch.Tensor]) -> Operation:
        """One work for several, of which the first one's limit of time holds for all."""
        if not works:
            raise ValueError("there are no tensors: a call of several needs one at least")
        return Several(works, results, self._follower)

    def _brought(self, work: Any, results: Sequence[torch.Tensor], bring: Callable[[], None]) -> Operation:
        """The same work, and what is done when it has ended."""
        if not isinstance(work, Queued):
            return Several([work], results, self._follower, bring)
        work.wait()  # the current stream does, and brings the results
        with torch.no_grad():
            bring()
        work.take_in(results)
        return work

    # PyTorch 1 gives nothing at the start, and the works at the end.

    def _start_coalescing(self, _: torch.device | None = None) -> None:
        self._here.gathered = []

    def _end_coalescing(self, _: torch.device | list[Any] | None = None) -> Any:
        works, self._here.gathered = self._here.gathered or [], None
        return self._many(works, [tensor for work in works for tensor in work._results]) if works else None

    # ---- The end ----

    def abort(self) -> None:
        """Everything under way fails, here and on the other ranks."""
        for hook in list(self._abort_hooks.values()):
            hook()
        self._give_up()

    def _give_up(self) -> None:
        for messages in self._messages.values():
            messages.give_up()
        for comm in self._comms.values():
            comm.abort()

    def leave(self) -> None:
        """The interpreter ends: nothing may write to memory any more that it frees."""
        for messages in self._messages.values():
            messages.leave()
        for lane in self._lanes.values():
            lane.leave()
        for comm in self._comms.values():
            comm.leave()

    def shutdown(self) -> None:
        """The group is done with: what is under way is waited for, for as long as the group's limit of time says."""
        for messages in self._messages.values():
            messages.close()
        for lane in self._lanes.values():
            lane.close()
        for comm in self._comms.values():
            number, _ = guard.arm(self._timeout.total_seconds(), comm.abort)
            try:
                comm.destroy()
            except Error:
                pass  # its operations have reported it
            finally:
                guard.disarm(number)
        self._comms.clear()
        self._lanes.clear()
        self._follower.close()


_living: weakref.WeakSet[Mechanics] = weakref.WeakSet()


@atexit.register
def _leave_all() -> None:
    for group in list(_living):
        group.leave()
