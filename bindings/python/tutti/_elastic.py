# SPDX-License-Identifier: Apache-2.0
"""Groups whose allreduce ends also when members die or are late."""
from __future__ import annotations

import ctypes
from ctypes import byref, c_void_p
from dataclasses import dataclass
from typing import Any

from ._buffers import describe
from ._errors import InvalidUsage
from ._native import HOST, ElasticConfig, ElasticState, ElasticStep, UniqueId, call
from .comm import OPS, Communicator, OpName, _raw_id, ordered


@dataclass(frozen=True)
class Step:
    """What one allreduce has reduced. step: its number, from 1. generation: with whose members it counts. members:
    their numbers. units: how many replica groups they are. scale: 1 / units, by which a sum becomes a mean. tries: 1,
    and one more for each generation that ended meanwhile."""

    step: int
    generation: int
    members: tuple[int, ...]
    units: int
    scale: float
    tries: int


@dataclass(frozen=True)
class ElasticInfo:
    """The present generation, and this member's numbers in it. host_bytes, device_bytes: memory that the group
    holds."""

    steps: int
    generation: int
    members: int
    units: int
    member: int
    unit: int
    shard: int
    host_bytes: int
    device_bytes: int


class Elastic:
    """A group of the ranks of `comm`, on its kind of memory. A member that dies, or does not come to an allreduce
    within `timeout` seconds, is left out, with its unit, and the others go on in the same step.

    timeout: None is TUTTI_TIMEOUT. minimum: units with which the group may go on. unit and shard: where each replica
    of a model is spread over several processes, the replica's number and the part of it that this process holds.
    chunk_bytes and chunks: at most this number of pieces, of this number of bytes each, are under way from a member to
    another one, where members share no memory; both 0: as an allreduce of the communicator.

        group = tutti.Elastic(comm, timeout=20)
        step = group.allreduce(gradients, op="avg")
        if step.tries > 1:
            print(f"{step.units} replicas are left")"""

    def __init__(self, comm: Communicator, *, timeout: float | None = None, minimum: int = 1, unit: int | None = None,
                 shard: int = 0, chunk_bytes: int = 0, chunks: int = 0) -> None:
        self.handle: c_void_p | None = None
        made = c_void_p()
        call("elastic_init", byref(made), comm.handle,
             byref(_config(timeout, minimum, unit, shard, HOST, chunk_bytes, chunks)))
        self.handle = made
        self.device = comm.device

    @classmethod
    def join(cls, members: int, identity: bytes, rank: int, *, timeout: float | None = None, minimum: int = 1,
             unit: int | None = None, shard: int = 0, device: int = HOST, chunk_bytes: int = 0,
             chunks: int = 0) -> Elastic:
        """A newcomer's group: see grow(). `members` counts all, newcomers too; `rank` is at least the number of old
        members. device: HOST, or the number of a CUDA device, if the old members have one each."""
        group = cls.__new__(cls)
        group.handle = None
        made = c_void_p()
        call("elastic_join", byref(made), members, byref(_raw_id(identity)), rank,
             byref(_config(timeout, minimum, unit, shard, device, chunk_bytes, chunks)))
        group.handle = made
        group.device = device
        return group

    def __enter__(self) -> Elastic:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        self.end()

    def _open(self) -> c_void_p:
        if not self.handle:
            raise InvalidUsage("this elastic group was ended")
        return self.handle

    def allreduce(self, send: Any, recv: Any = None, op: OpName = "sum", *, stream: int | None = None) -> Step:
        """recv = op over the members of this shard that the step names. Without recv the result replaces send, of
        which the group keeps a copy. "avg" divides by the number of units. On CUDA devices the step begins behind what
        is on the stream (an integer; by default the one that is current where the buffers come from). In any case the
        step has ended when the call returns. Raises RemoteError when this member was left out: then a new process may
        join in its place."""
        if op not in OPS:
            raise ValueError(f"there is no operator {op!r}; there are {', '.join(OPS)}")
        here = describe(send, "send", recv is None)
        there = here if recv is None else describe(recv, "recv", True)
        if (here.name, here.count) != (there.name, there.count):
            raise ValueError(f"send has {here.count} of {here.name}, recv {there.count} of {there.name}")
        if (here.device, there.device) != (self.device, self.device):
            where = "the host" if self.device == HOST else f"CUDA device {self.device}"
            raise ValueError(f"this elastic group reduces memory of {where}")
        told = ElasticStep(size=ctypes.sizeof(ElasticStep))
        call("elastic_allreduce_on", self._open(), here.address, there.address, here.count, here.type, OPS[op],
             0 if self.device == HOST else ordered(self.device, (here, there), stream), byref(told))
        return Step(told.step, told.generation, tuple(told.set[:told.members]), told.units, told.scale, told.tries)

    def unique_id(self) -> bytes:
        """The meeting point of newcomers: one member makes it, and hands it to them. It is a secret."""
        identity = UniqueId()
        call("elastic_get_unique_id", self._open(), byref(identity))
        return ctypes.string_at(byref(identity), ctypes.sizeof(identity))

    def grow(self, newcomers: int, identity: bytes | None = None) -> None:
        """All members call it between two steps, and `newcomers` processes call join(). The member that made the
        identity passes it. Raises RemoteError when somebody did not come; the group goes on without newcomers."""
        raw = None if identity is None else byref(_raw_id(identity))
        call("elastic_grow", self._open(), newcomers, raw)

    @property
    def info(self) -> ElasticInfo:
        """The present generation."""
        told = ElasticState(size=ctypes.sizeof(ElasticState))
        call("elastic_get_state", self._open(), byref(told))
        return ElasticInfo(told.steps, told.generation, told.members, told.units, told.member, told.unit, told.shard,
                           told.host_bytes, told.device_bytes)

    def end(self) -> None:
        """Leaves the group; the others go on. Does nothing the second time."""
        ended, self.handle = self.handle, None
        if ended:
            call("elastic_end", ended)


def _config(timeout: float | None, minimum: int, unit: int | None, shard: int, device: int, chunk_bytes: int,
            chunks: int) -> ElasticConfig:
    milliseconds = 0 if timeout is None else max(1, round(timeout * 1000))
    return ElasticConfig(ctypes.sizeof(ElasticConfig), milliseconds, minimum, -1 if unit is None else unit, shard,
                         device, chunk_bytes, chunks)
