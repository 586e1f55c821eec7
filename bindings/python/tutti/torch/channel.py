# SPDX-License-Identifier: Apache-2.0
"""Messages between two ranks of a group.

torch.distributed lets any number of sends and receives of a pair be under way, matches them by tag, and takes receives
from any rank. The library matches a pair's messages in the order of calls. So each direction of a pair that is used has
communicators of two ranks (carrier.py), and a thread at either end of it: the sender's announces each message by a
header, the receiver's finds who waits for its tag.
"""
from __future__ import annotations

import atexit
import queue
import threading
import time
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch

from .._errors import Error
from .._native import HOST
from .carrier import HostCarrier, carrier, invitation
from .cuda import Lane
from .notes import find, leave
from .work import Operation, failure, timed_out

END = -(2**62)  # the tag of the header that says: nothing follows


class Message(Operation):
    """A send or a receive. `peer`: the other rank; None: any."""

    def __init__(self, name: str, tensor: torch.Tensor, tag: int, timeout: timedelta, peer: int | None = None) -> None:
        super().__init__(name, [tensor], timeout)
        self.tensor, self.tag, self.peer = tensor, tag, peer
        self.source = None if name == "send" else peer
        self.withdraw: Callable[[], None] = lambda: None
        self.ready = torch.cuda.current_stream(tensor.device).record_event() if tensor.is_cuda else None
        self._lane: Lane | None = None
        self._arrived: torch.cuda.Event | None = None
        self._event = threading.Event()

    def sail(self, lane: Lane) -> None:
        """A stream carries it: it has arrived behind what was issued last."""
        self._lane, self._arrived = lane, lane.mark(self._name, self._timeout)

    def end(self, error: Exception | None = None, source: int = -1) -> None:
        """It is over; called once, by the thread that carried it."""
        self._error = error and failure(error)
        self._source = source
        self._event.set()
        if self._future is not None:
            self.complete()

    def _finish(self, seconds: float) -> None:
        if not self._event.wait(min(seconds, threading.TIMEOUT_MAX)):
            self.withdraw()
            if not self._event.is_set():
                self.end(self._late(seconds))
            self._error = self._late(seconds)
        if self._lane is not None and self._error is None:
            self._lane.current().wait_event(self._arrived)
            self._error = self._lane.error()

    def _late(self, seconds: float) -> RuntimeError:
        who = "no rank has" if self.peer is None else f"rank {self.peer} has not"
        what = "received" if self._name == "send" else "sent"
        return timed_out(self._name, seconds, f"{who} {what} the message with tag {self.tag}")

    def _ended(self) -> bool:
        return self._event.is_set() and (self._arrived is None or self._arrived.query())

    def _order(self) -> Any:
        return super()._order() if self._lane is None else torch.cuda.stream(self._lane.stream)

    def _follow(self) -> None:
        if self._event.is_set():
            self.complete()


class _End(threading.Thread):
    """One end of a channel."""

    def __init__(self, messages: Messages, source: int, target: int) -> None:
        self.messages, self.sends = messages, source == messages.rank
        self.peer = target if self.sends else source
        self.key = f"p2p/{source}/{target}"
        self.carrier: HostCarrier | None = None
        self.owning = threading.Lock()
        self.closing = False
        super().__init__(name=f"tutti {source} to {target}", daemon=True)

    def connect(self) -> HostCarrier | None:
        """The sender leaves the meeting points in the store; the receiver looks for them. None: closed meanwhile."""
        if self.sends:
            text: str | None = invitation(self.messages.device)
            leave(self.messages.store, self.key, text)
        else:
            text = find(self.messages.store, self.key, lambda: not self.closing)
        if text is None:
            return None
        self.carrier = carrier(text, 0 if self.sends else 1, self.messages.device)
        return self.carrier

    def named(self, error: Exception) -> Exception:
        """The library counts the ranks of a communicator of two: this says whom it means."""
        if not isinstance(error, Error):
            return error
        other, peer = (1, "to") if self.sends else (0, "from")
        return failure(error, f"messages {peer} rank {self.peer}, which is rank {other} of their own communicator: ")

    def give_up(self) -> None:
        """What is under way fails. Any thread may call it."""
        with self.owning:
            if self.carrier is not None:
                self.carrier.abort()

    def end(self) -> None:
        """The carrier is this thread's alone from here on: nobody aborts what is being freed."""
        with self.owning:
            carried, self.carrier = self.carrier, None
        if carried is not None:
            carried.destroy()


class Sender(_End):
    """Sends this rank's messages to one other, in their order."""

    def __init__(self, messages: Messages, source: int, target: int) -> None:
        super().__init__(messages, source, target)
        self.queue: queue.SimpleQueue[Message | None] = queue.SimpleQueue()

    def run(self) -> None:
        error: Exception | None = None
        while (message := self.queue.get()) is not None:
            try:
                if error is None:
                    self._send(message)
            except Exception as first:
                error = self.named(first)
            message.end(error)
            del message
        try:
            if self.carrier is not None and error is None:
                self.carrier.send_header(END, 0)
            self.end()
        except Error:
            pass  # the receiver has gone; all messages had ended

    def _send(self, message: Message) -> None:
        carried = self.carrier or self.connect()
        assert carried is not None
        carried.send_header(message.tag, message.tensor.numel() * message.tensor.element_size())
        carried.send(message)

    def close(self) -> None:
        self.closing = True
        self.queue.put(None)


class Receiver(_End):
    """Receives what one rank sends to this one."""

    def run(self) -> None:
        try:
            while self.messages.await_want(self.peer, self):
                carried = self.carrier or self.connect()
                if carried is None:
                    return
                tag, size = carried.recv_header()
                if tag == END:
                    break
                self._receive(carried, tag, size)
            self.end()
        except Exception as error:
            self.messages.lose(self.peer, self.named(error))
            self.give_up()

    def _receive(self, carried: HostCarrier, tag: int, size: int) -> None:
        message = self.messages.take(self.peer, tag, self)
        if message is None or message.tensor.numel() * message.tensor.element_size() != size:
            early = carried.recv_early(size)
            if message is None:
                self.messages.store_early(self.peer, tag, early, carried)
            else:
                message.end(_sizes(message, size, self.peer))
            return
        try:
            message.withdraw = self.give_up
            carried.recv(message)
        except Exception as error:
            message.end(self.named(error))
            raise
        message.end(None, self.peer)

    def close(self) -> None:
        self.closing = True


def _sizes(message: Message, size: int, peer: int) -> Exception:
    return ValueError(f"rank {peer} sent {size} bytes with tag {message.tag}; the tensor to receive them has "
                      f"{message.tensor.numel() * message.tensor.element_size()}")


_living: weakref.WeakSet[Messages] = weakref.WeakSet()


class Messages:
    """All messages of a group's rank."""

    def __init__(self, store: Any, rank: int, size: int, device: int = HOST) -> None:
        self.store, self.rank, self.size, self.device = store, rank, size, device
        self._changed = threading.Condition()
        self._wanted: list[Message] = []
        self._early: list[tuple[int, int, torch.Tensor, HostCarrier]] = []
        self._lost: dict[int, Exception] = {}
        self._senders: dict[int, Sender] = {}
        self._receivers: dict[int, Receiver] = {}
        _living.add(self)

    def send(self, message: Message, target: int) -> Message:
        sender = self._senders.get(target)
        if sender is None:
            sender = self._senders[target] = Sender(self, self.rank, target)
            sender.start()
        message.withdraw = sender.give_up
        sender.queue.put(message)
        return message

    def recv(self, message: Message) -> Message:
        for source in range(self.size) if message.source is None else [message.source]:
            if source != self.rank and source not in self._receivers:
                self._receivers[source] = Receiver(self, source, self.rank)
                self._receivers[source].start()
        message.withdraw = lambda: self._withdraw(message)
        with self._changed:
            early = next((e for e in self._early if message.tag == e[1] and message.source in (None, e[0])), None)
            if early is not None:
                self._early.remove(early)
            elif message.source in self._lost:
                message.end(self._lost[message.source])
                return message
            else:
                self._wanted.append(message)
                self._changed.notify_all()
                return message
        self._copy_early(message, *early)
        return message

    @staticmethod
    def _copy_early(message: Message, source: int, tag: int, data: torch.Tensor, carried: HostCarrier) -> None:
        if message.tensor.numel() * message.tensor.element_size() != data.numel():
            message.end(_sizes(message, data.numel(), source))
            return
        carried.give(message, data)
        message.end(None, source)

    def _withdraw(self, message: Message) -> None:
        with self._changed:
            if message in self._wanted:
                self._wanted.remove(message)

    # ---- What receivers' threads call ----

    def _fits(self, message: Message, source: int) -> bool:
        return message.source is None or message.source == source

    def await_want(self, source: int, receiver: Receiver) -> bool:
        """Returns when somebody may want a message of `source`. False: nobody will any more,
        and there is no connection to empty."""
        with self._changed:
            self._changed.wait_for(lambda: receiver.closing or any(self._fits(m, source) for m in self._wanted))
        return not receiver.closing or receiver.carrier is not None

    def take(self, source: int, tag: int, receiver: Receiver) -> Message | None:
        """Who wants this message. None: nobody yet, but who wants another one from the same rank must not wait for
        that."""
        def found() -> Message | None:
            return next((m for m in self._wanted if m.tag == tag and self._fits(m, source)), None)

        with self._changed:
            self._changed.wait_for(lambda: receiver.closing or any(self._fits(m, source) for m in self._wanted))
            message = found()
            if message is not None:
                self._wanted.remove(message)
            return message

    def store_early(self, source: int, tag: int, data: torch.Tensor, carried: HostCarrier) -> None:
        """A message for which nobody has asked: kept, unless somebody has meanwhile."""
        with self._changed:
            message = next((m for m in self._wanted if m.tag == tag and self._fits(m, source)), None)
            if message is None:
                self._early.append((source, tag, data, carried))
                return
            self._wanted.remove(message)
        self._copy_early(message, source, tag, data, carried)

    def lose(self, source: int, error: Exception) -> None:
        """Nothing comes from `source` any more. Who waits for any rank goes on, as long as there is another."""
        with self._changed:
            self._lost[source] = error
            alone = len(self._lost) == self.size - 1
            failed = [m for m in self._wanted if m.source == source or (m.source is None and alone)]
            self._wanted = [m for m in self._wanted if m not in failed]
        for message in failed:
            message.end(error)

    def give_up(self) -> None:
        """All messages under way fail."""
        for end in (*self._senders.values(), *self._receivers.values()):
            end.give_up()

    def close(self) -> None:
        """Threads end when their peers have said so; those whose peers do not are left behind."""
        ends = (*self._senders.values(), *self._receivers.values())
        for end in ends:
            end.close()
        with self._changed:
            self._changed.notify_all()
        for sender in self._senders.values():
            sender.join(timeout=2)

    def leave(self) -> None:
        """Ends the threads, too, whose peers have said nothing: what these say at their own end may be on its way,
        and giving up is an error there."""
        self.close()
        until = time.monotonic() + 2
        for receiver in self._receivers.values():
            if receiver.ident is not None:
                receiver.join(timeout=max(until - time.monotonic(), 0))
        self.give_up()
        for end in (*self._senders.values(), *self._receivers.values()):
            if end.ident is not None:
                end.join(timeout=2)


@atexit.register
def _leave_all() -> None:
    """A thread that is inside PyTorch when the interpreter ends would end the process by an abort."""
    for messages in list(_living):
        messages.leave()
