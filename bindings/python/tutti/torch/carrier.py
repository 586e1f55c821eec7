# SPDX-License-Identifier: Apache-2.0
"""What carries the contents of messages from one rank to another: a communicator of two for hosts' memory, and a second
one for that of GPUs, on which a stream does it."""
from __future__ import annotations

import array
from typing import TYPE_CHECKING, Any

import torch

from .._buffers import Buffer, describe
from .._native import HOST
from ..comm import Communicator, init_rank, unique_id
from .cuda import Lane

if TYPE_CHECKING:
    from .channel import Message

SENDER, RECEIVER = 0, 1  # ranks


def invitation(device: int) -> str:
    """The meeting points of a carrier's communicators."""
    return " ".join(unique_id().hex() for _ in range(1 if device == HOST else 2))


def carrier(text: str, rank: int, device: int) -> HostCarrier:
    """One end of it."""
    points = [bytes.fromhex(point) for point in text.split()]
    if device == HOST:
        return HostCarrier(points[0], rank)
    comm = init_rank(2, points[1], rank, device=device)
    return (StagedCarrier if comm.staged else GpuCarrier)(points[0], rank, comm)


def _bytes(tensor: torch.Tensor) -> Buffer:
    """A tensor as bytes: its receiver may not know the type yet, or may have asked for another one."""
    return describe(tensor, "tensor")._replace(type=-1)


class HostCarrier:
    """Messages in hosts' memory: each call ends when they have arrived. It carries headers, too."""

    def __init__(self, point: bytes, rank: int) -> None:
        self.comm = init_rank(2, point, rank)

    def send_header(self, tag: int, size: int) -> None:
        self.comm.send(array.array("q", [tag, size]), RECEIVER)

    def recv_header(self) -> tuple[int, int]:
        header = array.array("q", [0, 0])
        self.comm.recv(header, SENDER)
        return header[0], header[1]

    def send(self, message: Message) -> None:
        self.comm.send(_bytes(message.tensor), RECEIVER)

    def recv(self, message: Message) -> None:
        self.comm.recv(_bytes(message.tensor), SENDER)

    def recv_early(self, size: int) -> torch.Tensor:
        """A message for which nobody has asked yet."""
        early = torch.empty(size, dtype=torch.uint8)
        self.comm.recv(early, SENDER)
        return early

    def give(self, message: Message, early: torch.Tensor) -> None:
        """Somebody has asked. Any thread may call it."""
        if early.numel():
            message.tensor.detach().view(-1).view(torch.uint8).copy_(early)

    def abort(self) -> None:
        self.comm.abort()

    def destroy(self) -> None:
        self.comm.destroy()


class GpuCarrier(HostCarrier):
    """Messages in the memory of GPUs. A call ends when the message has been issued behind what its caller's stream had
    to do; an event tells when it has arrived."""

    def __init__(self, point: bytes, rank: int, on_gpu: Communicator) -> None:
        super().__init__(point, rank)
        self.lane = Lane(on_gpu)

    def _issued(self, message: Message) -> None:
        self.lane.hold([message.tensor])
        message.sail(self.lane)

    def _how(self) -> dict[str, Any]:
        return {"wait": False, "stream": self.lane.stream.cuda_stream}

    def send(self, message: Message) -> None:
        self.lane.stream.wait_event(message.ready)
        self.lane.comm.send(_bytes(message.tensor), RECEIVER, **self._how())
        self._issued(message)

    def recv(self, message: Message) -> None:
        self.lane.stream.wait_event(message.ready)
        self.lane.comm.recv(_bytes(message.tensor), SENDER, **self._how())
        self._issued(message)

    def recv_early(self, size: int) -> torch.Tensor:
        with torch.cuda.stream(self.lane.stream):
            early = torch.empty(size, dtype=torch.uint8, device=self.lane.device)
        self.lane.comm.recv(early, SENDER, **self._how())
        return early

    def give(self, message: Message, early: torch.Tensor) -> None:
        self.lane.stream.wait_event(message.ready)
        with torch.cuda.stream(self.lane.stream):
            super().give(message, early)
        self._issued(message)

    def abort(self) -> None:
        super().abort()
        self.lane.abort()

    def destroy(self) -> None:
        self.lane.close()
        self.lane.comm.destroy()
        super().destroy()


class StagedCarrier(GpuCarrier):
    """The same where threads of the host carry what GPUs exchange. No stream waits for these while the caller's thread
    goes on, which may wait for that stream inside the driver: contents go through the host's memory here."""

    def send(self, message: Message) -> None:
        self.lane.stream.wait_event(message.ready)
        with torch.cuda.stream(self.lane.stream):
            contents = message.tensor.detach().reshape(-1).view(torch.uint8).cpu()
        self.comm.send(contents, RECEIVER)
        self._issued(message)

    def recv(self, message: Message) -> None:
        self.give(message, self.recv_early(message.tensor.numel() * message.tensor.element_size()))

    def recv_early(self, size: int) -> torch.Tensor:
        return HostCarrier.recv_early(self, size)
