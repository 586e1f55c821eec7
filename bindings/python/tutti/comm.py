# SPDX-License-Identifier: Apache-2.0
"""Communicators and their calls."""
from __future__ import annotations

import atexit
import collections
import contextlib
import ctypes
import os
import struct
import time
import weakref
from collections.abc import Sequence
from ctypes import byref, c_int, c_size_t, c_void_p
from typing import Any, Literal, overload

from ._buffers import TYPES, Buffer, current_stream, describe
from ._cuda import follow, handle
from ._dynamic import Counts, describe_dynamic
from ._errors import Error, InvalidUsage, Result, error_of
from ._group import opened
from ._native import HOST, Config, SignalWait, UniqueId, call, calls, check, last_error
from ._window import Window
from ._work import Work, take_stream

ADDRESS_BYTES = 46
PARTING = 2.0  # seconds that the interpreter's end waits for what is under way
KERNEL_RANKS = 8  # GPUs of a host whose kernels meet
OpName = Literal["sum", "prod", "max", "min", "avg"]
OPS: dict[OpName, int] = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}
FORMATS = {"int8": "b", "uint8": "B", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q", "float16": "e",
           "float32": "f", "float64": "d"}


def unique_id() -> bytes:
    """The meeting point of one new communicator: one rank makes it and hands it to the others. It is a secret."""
    identity = UniqueId()
    call("get_unique_id", byref(identity))
    return ctypes.string_at(byref(identity), ctypes.sizeof(identity))


def _config(timeout: float | None, name: str | None, device: int) -> Config:
    milliseconds = 0 if timeout is None else max(1, int(timeout * 1000))
    return Config(ctypes.sizeof(Config), -1, milliseconds, name.encode() if name else None, device, 0, -1)


def ordered(device: int, buffers: Sequence[Buffer], stream: int | None) -> int:
    """The stream of a call, behind what the buffers' own have to do: by default that of the first buffer."""
    if stream is None:
        stream = next((known for known in map(current_stream, buffers) if known is not None), None)
    ours = handle(stream)
    for theirs in {handle(buffer.stream) for buffer in buffers if buffer.stream is not None} - {ours}:
        follow(device, ours, theirs)
    return ours


def init(*, timeout: float | None = None, name: str | None = None, device: int = HOST) -> Communicator:
    """Joins with rank, size and meeting point from the launcher's environment: tutti run, torchrun, mpirun, srun.

    Without a launcher the process is rank 0 of 1.

    timeout: seconds without a sign of life after which a peer is taken for dead; None: as TUTTI_TIMEOUT says.
    device: HOST, or the number of a CUDA device whose memory the calls take."""
    handle = c_void_p()
    call("comm_init_from_env", byref(handle), byref(_config(timeout, name, device)))
    return Communicator(handle)


def init_rank(size: int, identity: bytes, rank: int, *, timeout: float | None = None, name: str | None = None,
              device: int = HOST) -> Communicator:
    """Joins the communicator of `identity`, which one rank got from unique_id(), as `rank` of `size`."""
    handle = c_void_p()
    call("comm_init_rank", byref(handle), size, byref(_raw_id(identity)), rank, byref(_config(timeout, name, device)))
    comm = Communicator(handle)
    comm.name = name or ""
    return comm


def _raw_id(identity: bytes) -> UniqueId:
    raw = UniqueId()
    if len(identity) != ctypes.sizeof(raw):
        raise ValueError(f"identity has {len(identity)} bytes; what unique_id() returns has {ctypes.sizeof(raw)}")
    ctypes.memmove(byref(raw), identity, ctypes.sizeof(raw))
    return raw


def init_new(size: int, identity: bytes, rank: int, *, timeout: float | None = None, name: str | None = None,
             device: int = HOST) -> Communicator:
    """Joins a communicator that grows to `size` ranks, as a newcomer: see Communicator.grow(). `identity` is what a
    member got from Communicator.unique_id(); `rank` is at least the number of members."""
    handle = c_void_p()
    call("comm_grow", None, size, byref(_raw_id(identity)), rank, byref(handle), byref(_config(timeout, name, device)))
    return Communicator(handle)


def init_all(size: int) -> list[Communicator]:
    """All ranks of a communicator in this process: one for each of `size` threads."""
    handles = (c_void_p * max(size, 0))()
    call("comm_init_all", handles, size)
    return [Communicator(c_void_p(handle)) for handle in handles]


def alloc(size: int) -> Any:
    """A zeroed ctypes array of `size` bytes that peers of this host can map: collectives on it copy less. It is freed
    when it, and what was made of it, is gone: numpy.frombuffer(tutti.alloc(n), dtype)."""
    address = c_void_p()
    call("mem_alloc", byref(address), size)
    kind: Any = type("Memory", (ctypes.c_ubyte * size,), {})
    memory = kind.from_address(address.value)
    weakref.finalize(memory, calls["mem_free"], address).atexit = False
    return memory


class Op:
    """An operator of one communicator: see Communicator.premul_sum()."""

    def __init__(self, comm: Communicator, number: int, type_name: str) -> None:
        self.comm, self.number, self.type_name = comm, number, type_name

    def destroy(self) -> None:
        """Frees the operator."""
        call("op_destroy", self.number, self.comm.handle)


class Communicator:
    """A rank's end of a communicator. Made by init(), init_rank(), init_new(), init_all(), and by split(), duplicate(),
    shrink() and grow() of another.

    Every collective takes anything with memory: arrays of NumPy, tensors of PyTorch, what has a buffer, DLPack or
    __cuda_array_interface__. It must be contiguous; it is not copied, and must not be touched until the call has ended.
    Calls wait for their end; with wait=False they return at once, and the Work that they return tells.
    One thread at a time may issue calls.

    On a CUDA device calls take a CUDA stream (an integer; 0: the default stream) and are ordered by it; they return at
    once. Without one they take the stream that is current where the first buffer comes from (PyTorch, CuPy). Where
    `staged`, threads of the host carry what GPUs exchange (several hosts), and calls return when it is over.
    """

    def __init__(self, handle: c_void_p) -> None:
        self.handle: c_void_p | None = handle
        self.name = ""  # what init_rank() was given
        self._pending: collections.deque[Work] = collections.deque()
        self.rank = self._int("comm_rank")
        self.size = self._int("comm_count")
        self.device = self._int("comm_device")
        self.staged = self.device != HOST and self._is_staged()
        _living.add(self)

    def __repr__(self) -> str:
        return f"<tutti.Communicator rank {self.rank} of {self.size}{'' if self.handle else ', destroyed'}>"

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        if kind is None:
            self.destroy()
            return
        self.abort()  # peers would wait for calls that do not come
        with contextlib.suppress(Error):
            self.destroy()

    def _call(self, name: str, *arguments: Any) -> None:
        if not self.handle:
            raise InvalidUsage("the communicator was destroyed")
        check(calls[name](self.handle, *arguments), self.handle)

    def _int(self, name: str) -> int:
        value = c_int()
        self._call(name, byref(value))
        return value.value

    def _is_staged(self) -> bool:
        """Do threads of the host carry what GPUs exchange? With TUTTI_STAGE_KERNEL=0 these call the driver, where other
        threads' calls that wait for a stream hold them up, and the stream waits for them: so calls wait until it is
        over."""
        off = any(os.environ.get(name, "0") not in ("", "0") for name in ("TUTTI_SHM_DISABLE", "NCCL_SHM_DISABLE"))
        off = off or os.environ.get("TUTTI_TRANSPORT") in ("tcp", "verbs")
        return off or self.local[1] != self.size or self.size > KERNEL_RANKS

    # ---- Life ----

    @property
    def local(self) -> tuple[int, int]:
        """Position among, and number of, the ranks of this host."""
        rank, count = c_int(), c_int()
        self._call("comm_local_rank", byref(rank), byref(count))
        return rank.value, count.value

    def address(self, rank: int) -> str:
        """Where the process of `rank` is reached by its peers: an address of IP in numbers, without a port."""
        text = ctypes.create_string_buffer(ADDRESS_BYTES)
        self._call("comm_address", rank, text, len(text))
        return text.value.decode()

    @property
    def memory(self) -> tuple[int, int]:
        """Bytes that the communicator holds at this moment: of the device, and of the host."""
        device, host = c_size_t(), c_size_t()
        self._call("comm_memory", byref(device), byref(host))
        return device.value, host.value

    @property
    def error(self) -> Error | None:
        """What ended the communicator; None while it works. Any thread may ask."""
        state = self._int("comm_get_async_error")
        return None if state in (Result.SUCCESS, Result.IN_PROGRESS) else error_of(state, last_error(self.handle))

    def _child(self, name: str, before: Sequence[Any], timeout: float | None, label: str | None) -> c_void_p:
        child = c_void_p()
        self._call(name, *before, byref(child), byref(_config(timeout, label, self.device)))
        return child

    @overload
    def split(self, color: int, key: int = 0, *, timeout: float | None = None,
              name: str | None = None) -> Communicator: ...
    @overload
    def split(self, color: None, key: int = 0, *, timeout: float | None = None, name: str | None = None) -> None: ...
    @overload
    def split(self, color: int | None, key: int = 0, *, timeout: float | None = None,
              name: str | None = None) -> Communicator | None: ...
    def split(self, color: int | None, key: int = 0, *, timeout: float | None = None,
              name: str | None = None) -> Communicator | None:
        """Ranks of equal color (0 or more) form a communicator, ordered by key, then by rank here.
        None: this rank is in none."""
        if color is not None and color < 0:
            raise ValueError(f"color is {color}; colors are 0 or more, and None is for a rank that is in none")
        child = self._child("comm_split", (-1 if color is None else color, key), timeout, name)
        return Communicator(child) if child else None

    def duplicate(self, *, timeout: float | None = None, name: str | None = None) -> Communicator:
        """The same ranks in a communicator of their own."""
        return Communicator(self._child("comm_duplicate", (), timeout, name))

    def shrink(self, excluded: Sequence[int], *, timeout: float | None = None, name: str | None = None) -> Communicator:
        """The ranks that are not in `excluded`, the same list on all of them. Works after a fault:
        the excluded may be dead."""
        ranks = (c_int * len(excluded))(*excluded)
        return Communicator(self._child("comm_shrink", (ranks, len(excluded)), timeout, name))

    def unique_id(self) -> bytes:
        """The meeting point of one communicator that this one grows into: one member makes it and hands it to the
        newcomers. It is a secret."""
        identity = UniqueId()
        self._call("comm_get_unique_id", byref(identity))
        return ctypes.string_at(byref(identity), ctypes.sizeof(identity))

    def grow(self, size: int, identity: bytes | None = None, *, timeout: float | None = None,
             name: str | None = None) -> Communicator:
        """These ranks, with their numbers, and newcomers, which call init_new(): `size` in all. The member that made
        the identity passes it, the others None. This communicator stays as it is, also if that fails."""
        raw = None if identity is None else byref(_raw_id(identity))
        return Communicator(self._child("comm_grow", (size, raw, -1), timeout, name))

    def synchronize(self) -> None:
        """Waits until everything issued is done."""
        self._call("comm_synchronize")

    def finalize(self) -> None:
        """Waits until everything issued is done; only destroy() is allowed afterwards."""
        self._call("comm_finalize")

    def abort(self) -> None:
        """Gives up: pending operations end with RemoteError, here and on all other ranks. Any thread may call it."""
        self._call("comm_abort")

    def leave(self) -> None:
        """For the interpreter's end: what is under way may end, or is given up, before the memory goes that it uses."""
        until = time.monotonic() + PARTING
        while self.handle and not all(self._ended(work) for work in list(self._pending)):
            if time.monotonic() > until:
                self.abort()
                return
            time.sleep(1e-3)

    def destroy(self) -> None:
        """Finalizes and frees the communicator. Does nothing the second time."""
        if opened.works.get(self):
            raise InvalidUsage("an open group keeps calls on this communicator: end the group first")
        handle, self.handle = self.handle, None
        if handle:
            check(calls["comm_destroy"](handle))
            self._pending.clear()

    # ---- Calls ----

    def _issue(self, name: str, arguments: Sequence[Any], keep: Sequence[Buffer | Op], wait: bool,
               stream: int | None) -> Work:
        """Calls tutti_NAME(arguments, comm, stream)."""
        if not self.handle:
            raise InvalidUsage("the communicator was destroyed")
        if self.device != HOST:
            check(calls[name](*arguments, self.handle, self._ordered(keep, stream)), self.handle)
            if self.staged and not opened.depth:
                self.synchronize()
            elif self.staged:
                opened.staged.add(self)
            work = Work(self, None)
            work.keep(*keep)  # for who holds it: CUDA tells when the operation ends
            return work
        work = opened.works.get(self) or Work(self, take_stream())
        work.keep(*keep)
        if opened.depth:
            opened.works[self] = work
        result = calls[name](*arguments, self.handle, work.stream)
        if result and not opened.depth:
            error = error_of(result, last_error(self.handle))
            work.fail(error)
            raise error
        check(result, self.handle)
        self._await(work, wait)
        return work

    def _ordered(self, keep: Sequence[Buffer | Op], stream: int | None) -> int:
        """The stream of a call, behind what the buffers' own have to do: by default that of the first buffer."""
        return ordered(self.device, [thing for thing in keep if isinstance(thing, Buffer)], stream)

    def _await(self, work: Work, wait: bool) -> None:
        """Work that nobody holds must not lose its buffers: it is kept here until it has ended,
        which happens in the order of calls."""
        if opened.depth:
            if wait:
                opened.waited.add(work)
            self._pending.append(work)
        elif wait:
            work.wait()
        else:
            while self._pending and self._ended(self._pending[0]):
                self._pending.popleft()
            self._pending.append(work)

    @staticmethod
    def _ended(work: Work) -> bool:
        try:
            return work.test()
        except Error:
            return True

    def _place(self, thing: Any, argument: str, writable: bool = False) -> Buffer:
        buffer = describe(thing, argument, writable)
        if buffer.device != self.device:
            where = ["the host" if device == HOST else f"CUDA device {device}"
                     for device in (buffer.device, self.device)]
            raise ValueError(f"{argument} is in memory of {where[0]}, but the communicator is for {where[1]}")
        return buffer

    def _pair(self, send: Any, recv: Any, send_blocks: int = 1, recv_blocks: int = 1) -> tuple[Buffer, Buffer]:
        """Both buffers: of one type, and as long as the call says. Without `recv` the call is in place."""
        here = self._place(send, "send", recv is None)
        there = here if recv is None else self._place(recv, "recv", True)
        if here.name != there.name:
            raise TypeError(f"send is of type {here.name}, recv of {there.name}")
        if here.count * recv_blocks != there.count * send_blocks:
            raise ValueError(f"send has {here.count} elements, recv {there.count}; with {self.size} ranks recv must "
                             f"have {here.count * recv_blocks // send_blocks}")
        if here.count % send_blocks:
            raise ValueError(f"send has {here.count} elements, which {self.size} ranks cannot share evenly")
        return here, there

    def _operator(self, op: OpName | Op, buffer: Buffer) -> int:
        if isinstance(op, Op):
            if op.type_name != buffer.name:
                raise TypeError(f"the operator is for {op.type_name}, the buffer of {buffer.name}")
            return op.number
        if buffer.type < 0:
            raise TypeError(f"elements of type {buffer.name} cannot be reduced; these can: {', '.join(TYPES)}")
        if op not in OPS:
            raise ValueError(f"there is no operator {op!r}; there are {', '.join(OPS)}, and what premul_sum() makes")
        return OPS[op]

    def allreduce(self, send: Any, recv: Any = None, op: OpName | Op = "sum", *, wait: bool = True,
                  stream: int | None = None) -> Work:
        """recv = op over ranks of send. Without recv the result replaces send."""
        here, there = self._pair(send, recv)
        arguments = (here.address, there.address, here.count, here.type, self._operator(op, here))
        return self._issue("allreduce", arguments, (here, there), wait, stream)

    def reduce(self, send: Any, recv: Any = None, op: OpName | Op = "sum", root: int = 0, *, wait: bool = True,
               stream: int | None = None) -> Work:
        """As allreduce, the result on root alone; elsewhere recv is not looked at."""
        if self.rank == root:
            here, there = self._pair(send, recv)
        else:
            here = there = self._place(send, "send")
        out = there.address if self.rank == root else None
        arguments = (here.address, out, here.count, here.type, self._operator(op, here), root)
        return self._issue("reduce", arguments, (here, there), wait, stream)

    def broadcast(self, buffer: Any, root: int = 0, *, wait: bool = True, stream: int | None = None) -> Work:
        """buffer = root's buffer."""
        place = self._place(buffer, "buffer", self.rank != root)
        return self._issue("broadcast", (place.address, place.address, *place.units(), root), (place,), wait, stream)

    def allgather(self, send: Any, recv: Any, *, wait: bool = True, stream: int | None = None) -> Work:
        """recv holds a block for each rank: its send."""
        here, there = self._pair(send, recv, 1, self.size)
        return self._issue("allgather", (here.address, there.address, *here.units()), (here, there), wait, stream)

    def reduce_scatter(self, send: Any, recv: Any, op: OpName | Op = "sum", *, wait: bool = True,
                       stream: int | None = None) -> Work:
        """send holds a block for each rank; recv = op over ranks of this rank's block."""
        here, there = self._pair(send, recv, self.size, 1)
        arguments = (here.address, there.address, there.count, here.type, self._operator(op, here))
        return self._issue("reduce_scatter", arguments, (here, there), wait, stream)

    def scan(self, send: Any, recv: Any = None, op: OpName | Op = "sum", *, wait: bool = True,
             stream: int | None = None) -> Work:
        """recv = op over ranks 0 to this one of send. Without recv the result replaces send."""
        here, there = self._pair(send, recv)
        arguments = (here.address, there.address, here.count, here.type, self._operator(op, here))
        return self._issue("scan", arguments, (here, there), wait, stream)

    def allgatherv(self, send: Any, recv: Any, counts: Sequence[int], offsets: Sequence[int] | None = None, *,
                   wait: bool = True, stream: int | None = None) -> Work:
        """Rank r's counts[r] elements come to recv, offsets[r] on.
        Without offsets the blocks lie one behind the other."""
        here, there = self._place(send, "send"), self._place(recv, "recv", True)
        blocks = self._own_block(here, "send", there, "recv", counts, offsets)
        arguments = (here.address, there.address, *blocks, there.units()[1])
        return self._issue("allgatherv", arguments, (here, there), wait, stream)

    def reduce_scatterv(self, send: Any, recv: Any, counts: Sequence[int], offsets: Sequence[int] | None = None,
                        op: OpName | Op = "sum", *, wait: bool = True, stream: int | None = None) -> Work:
        """recv = op over ranks of the counts[rank] elements of send from offsets[rank] on.
        Offsets as in allgatherv."""
        here, there = self._place(send, "send"), self._place(recv, "recv", True)
        number = self._operator(op, here)
        blocks = self._own_block(there, "recv", here, "send", counts, offsets)
        arguments = (here.address, *blocks, there.address, here.type, number)
        return self._issue("reduce_scatterv", arguments, (here, there), wait, stream)

    def _own_block(self, own: Buffer, argument: str, all_blocks: Buffer, name: str, counts: Sequence[int],
                   offsets: Sequence[int] | None) -> tuple[Any, Any]:
        """The arrays of a call in which one buffer is this rank's block and the other has a block for each rank."""
        if own.name != all_blocks.name:
            raise TypeError(f"{argument} is of type {own.name}, {name} of {all_blocks.name}")
        blocks = self._blocks(all_blocks, name, counts, offsets)
        if own.count != counts[self.rank]:
            raise ValueError(f"{argument} has {own.count} elements; "
                             f"the block of rank {self.rank} has {counts[self.rank]}")
        return blocks

    def alltoall(self, send: Any, recv: Any, *, wait: bool = True, stream: int | None = None) -> Work:
        """Both hold a block for each rank: this rank's block r goes to rank r,
        whose block for this rank arrives as block r."""
        here, there = self._pair(send, recv)
        count, kind = here.units()
        if here.count % self.size:
            raise ValueError(f"send has {here.count} elements, which {self.size} ranks cannot share evenly")
        return self._issue("alltoall", (here.address, there.address, count // self.size, kind),
                           (here, there), wait, stream)

    def alltoallv(self, send: Any, send_counts: Sequence[int], recv: Any, recv_counts: Sequence[int],
                  send_offsets: Sequence[int] | None = None, recv_offsets: Sequence[int] | None = None, *,
                  wait: bool = True, stream: int | None = None) -> Work:
        """send_counts[r] elements from send_offsets[r] on go to rank r.
        Without offsets the blocks lie one behind the other."""
        here, there = self._place(send, "send"), self._place(recv, "recv", True)
        if here.name != there.name:
            raise TypeError(f"send is of type {here.name}, recv of {there.name}")
        out = self._blocks(here, "send", send_counts, send_offsets)
        into = self._blocks(there, "recv", recv_counts, recv_offsets)
        kind = here.units()[1]
        return self._issue("alltoallv", (here.address, *out, there.address, *into, kind), (here, there), wait, stream)

    def alltoallv_dynamic(self, send: Any, recv: Any, split_rows: Any, index_counts: Any, indices: Any, *, row: int,
                          recv_splits: Any = None, windows: int = 1, merged: bool = False,
                          stream: int | None = None) -> Work:
        """Splits of `send` go where indices say, which the GPU reads when the call runs, also in a graph.
        split_rows: rows of each split, of `row` elements. index_counts: how many of the indices are for rank 0, 1, ...
        What comes from rank r is stored in the r-th of `size` windows of recv, or with `merged` in the only one, at
        the rows where it lies in rank r's window of send. recv_splits gets split_rows of all ranks. Counts are int64
        on the GPU. To bring results back: send=recv, windows=size, split_rows=recv_splits, merged=True."""
        here, there = self._place(send, "send"), self._place(recv, "recv", True)
        if here.name != there.name:
            raise TypeError(f"send is of type {here.name}, recv of {there.name}")
        counts = Counts(self._place(split_rows, "split_rows"), self._place(index_counts, "index_counts"),
                        self._place(indices, "indices"),
                        None if recv_splits is None else self._place(recv_splits, "recv_splits", True))
        what = describe_dynamic(here, there, counts, row, windows, merged, self.size)
        if here.type < 0:  # moved as bytes
            what.row *= here.itemsize
        keep = (here, there, *(buffer for buffer in counts if buffer is not None))
        return self._issue("alltoallv_dynamic", (here.address, there.address, here.units()[1], byref(what)), keep,
                           True, stream)

    def _blocks(self, buffer: Buffer, argument: str, counts: Sequence[int],
                offsets: Sequence[int] | None) -> tuple[Any, Any]:
        """The two arrays of the C call, in units to move by, after they were seen to lie inside the buffer."""
        if offsets is None:
            offsets = [sum(counts[:rank]) for rank in range(len(counts))]
        if len(counts) != self.size or len(offsets) != self.size:
            raise ValueError(f"{argument} has {len(counts)} counts and {len(offsets)} offsets; there are "
                             f"{self.size} ranks")
        for rank, (count, offset) in enumerate(zip(counts, offsets)):
            if count < 0 or offset < 0 or offset + count > buffer.count:
                raise ValueError(f"{argument}: {count} elements at {offset} for rank {rank} do not lie within its "
                                 f"{buffer.count} elements")
        scale = 1 if buffer.type >= 0 else buffer.itemsize
        sizes = c_size_t * self.size
        return sizes(*[count * scale for count in counts]), sizes(*[offset * scale for offset in offsets])

    def gather(self, send: Any, recv: Any = None, root: int = 0, *, wait: bool = True,
               stream: int | None = None) -> Work:
        """On root recv holds a block for each rank: its send. Elsewhere recv is not looked at."""
        here = there = self._place(send, "send")
        if self.rank == root:
            here, there = self._pair(send, self._given(recv, "recv"), 1, self.size)
        out = there.address if self.rank == root else None
        return self._issue("gather", (here.address, out, *here.units(), root), (here, there), wait, stream)

    def scatter(self, send: Any, recv: Any, root: int = 0, *, wait: bool = True, stream: int | None = None) -> Work:
        """recv = this rank's block of what send holds on root. Elsewhere send is not looked at, and may be None."""
        here = there = self._place(recv, "recv", True)
        if self.rank == root:
            here, there = self._pair(self._given(send, "send"), recv, self.size, 1)
        source = here.address if self.rank == root else None
        return self._issue("scatter", (source, there.address, *there.units(), root), (here, there), wait, stream)

    @staticmethod
    def _given(thing: Any, argument: str) -> Any:
        if thing is None:
            raise TypeError(f"{argument} is None on the root")
        return thing

    def barrier(self, *, wait: bool = True, stream: int | None = None) -> Work:
        """Ends when every rank has called it."""
        return self._issue("barrier", (), (), wait, stream)

    def send(self, buffer: Any, peer: int, *, wait: bool = True, stream: int | None = None) -> Work:
        """Sends to `peer`, whose recv() of as many elements takes it.
        What must run at the same time belongs in one group()."""
        place = self._place(buffer, "buffer")
        return self._issue("send", (place.address, *place.units(), peer), (place,), wait, stream)

    def recv(self, buffer: Any, peer: int, *, wait: bool = True, stream: int | None = None) -> Work:
        """Receives what `peer` sends."""
        place = self._place(buffer, "buffer", True)
        return self._issue("recv", (place.address, *place.units(), peer), (place,), wait, stream)

    def window(self, memory: Any) -> Window:
        """Collective: the other ranks may put into `memory`, get from it, and signal."""
        return Window(self, self._place(memory, "memory", True))

    def signal(self, peer: int, signal: int = 0, *, wait: bool = True, stream: int | None = None) -> Work:
        """Signals `peer`, behind all that this rank has put there before. Signals 0 to 7 are counted apart."""
        return self._issue("signal", (peer, signal), (), wait, stream)

    def wait_signal(self, peer: int, signal: int = 0, count: int = 1, *, wait: bool = True,
                    stream: int | None = None) -> Work:
        """Waits until `peer` has signalled `count` times more than was waited for before. On GPUs `stream` waits."""
        if count < 0:
            raise ValueError(f"count is {count}; it is 0 or more")
        return self._issue("wait_signal", (byref(SignalWait(peer, signal, count)), 1), (), wait, stream)

    def premul_sum(self, factor: Any, type_name: str) -> Op:
        """An operator: every rank's input is multiplied by its own factor, then summed."""
        if type_name not in TYPES:
            raise TypeError(f"there is no type {type_name!r}; there are {', '.join(TYPES)}")
        if type_name not in FORMATS:
            raise TypeError(f"a factor of type {type_name} is not supported; those of {', '.join(FORMATS)} are")
        number, scalar = c_int(), struct.pack(FORMATS[type_name], factor)
        call("op_create_premul_sum", byref(number), scalar, TYPES[type_name], self.handle, comm=self.handle)
        return Op(self, number.value, type_name)


_living: weakref.WeakSet[Communicator] = weakref.WeakSet()
os.register_at_fork(after_in_child=_living.clear)  # they are the parent's


def living() -> list[Communicator]:
    """Those of this process that were not destroyed."""
    return [comm for comm in list(_living) if comm.handle]


@atexit.register
def _leave_all() -> None:
    for comm in list(_living):
        with contextlib.suppress(Error):
            comm.leave()
