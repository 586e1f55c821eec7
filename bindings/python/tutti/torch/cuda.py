# SPDX-License-Identifier: Apache-2.0
"""Tensors of GPUs. Each communicator has a stream of its own, which events order with the streams of its callers; and
one thread of the process looks whether what these streams carry ends in time."""
from __future__ import annotations

import atexit
import collections
import contextlib
import ctypes
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import torch

from .._buffers import Buffer
from .._errors import Error
from .._work import Work as Issued
from ..comm import Communicator
from .work import Operation, failure, timed_out

STEP = 0.05  # seconds between looks at what is under way
LOOK, NAP = 200e-6, 1e-3  # seconds that a host's wait looks, and then sleeps between looks
CAPTURE_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


def device_of(options: Any) -> torch.device | None:
    """The GPU that the options of a barrier name."""
    device = getattr(options, "device", None)
    if device is None or device.type != "cuda":
        return None
    return device if device.index is not None else torch.device("cuda", torch.cuda.current_device())


class Lane:
    """The stream of a communicator on a GPU."""

    def __init__(self, comm: Communicator) -> None:
        self.comm, self.device = comm, torch.device("cuda", comm.device)
        self.stream = torch.cuda.Stream(self.device)
        self._under_way: collections.deque[tuple[torch.cuda.Event, float, str, float]] = collections.deque()
        self._late: RuntimeError | None = None
        self._lock = threading.Lock()  # nobody aborts what is being freed
        self._closed = False

    def current(self) -> torch.cuda.Stream:
        """The caller's stream."""
        return torch.cuda.current_stream(self.device)

    def follow(self) -> None:
        """What is issued on the lane from now on comes behind what the current stream has to do until now."""
        self.stream.wait_stream(self.current())

    def mark(self, name: str, timeout: timedelta) -> torch.cuda.Event:
        """An event behind what was issued last, which must come within the timeout."""
        event = self.stream.record_event()
        if not torch.cuda.is_current_stream_capturing():  # a graph's events belong to its launches
            seconds = timeout.total_seconds()
            self._under_way.append((event, time.monotonic() + seconds, name, seconds))
            watch.look_at(self)
        return event

    def hold(self, things: Iterable[Any]) -> None:
        """The memory of these tensors is not given to others before the lane has come here."""
        for thing in things:
            tensor = thing.keep if isinstance(thing, Buffer) else thing
            if isinstance(tensor, torch.Tensor) and tensor.is_cuda:
                tensor.record_stream(self.stream)

    def error(self) -> RuntimeError | None:
        """What has ended the communicator."""
        if self._late is not None:
            return self._late
        error = self.comm.error if self.comm.handle else None
        return failure(error) if error is not None else None

    def look(self) -> bool:
        """Is anything under way? What is late is given up."""
        now = time.monotonic()
        while self._under_way:
            event, deadline, name, seconds = self._under_way[0]
            if event.query():
                self._under_way.popleft()
            elif now < deadline:
                return True
            else:
                self._under_way.clear()
                self.expire(name, seconds)
        return False

    def expire(self, name: str, seconds: float) -> None:
        """An operation has not ended in time: all that is under way fails."""
        self._late = self._late or timed_out(name, seconds)
        self.abort()

    def abort(self) -> None:
        """Any thread may call it."""
        with self._lock, contextlib.suppress(Error):
            if not self._closed:
                self.comm.abort()

    def leave(self) -> None:
        """For the interpreter's end: what is under way is given up."""
        if self.look():
            self.abort()

    def close(self) -> None:
        """From here on the communicator is the caller's alone."""
        with self._lock:
            self._closed = True
        self._under_way.clear()


class Queued(Operation):
    """An operation that the stream of a lane carries out. Who waits lets the current stream wait, not the host, unless
    a limit of time is given, or the operation is for hosts."""

    def __init__(self, name: str, results: Any, timeout: timedelta, lane: Lane, event: torch.cuda.Event,
                 follower: Any = None) -> None:
        super().__init__(name, results, timeout)
        self._lane, self._event = lane, event
        self._follower = follower  # of an operation for hosts: whose thread waits

    def take_in(self, results: Any) -> None:
        """What the current stream has been given to do since is part of the operation, and these come of it."""
        self._lane.follow()
        self._event, self._results = self._lane.mark(self._name, self._timeout), results

    def _finish(self, seconds: float) -> None:
        if self._follower is not None:
            self._wait_here(seconds)
        self._lane.current().wait_event(self._event)
        self._error = self._lane.error()

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        if timeout > timedelta(0):
            self._wait_here(timeout.total_seconds())
        return super().wait(timeout)

    def _wait_here(self, seconds: float) -> None:
        start = time.monotonic()
        while not self._event.query():
            passed = time.monotonic() - start
            if passed > seconds:
                self._lane.expire(self._name, seconds)
                self._event.synchronize()  # the library lets streams go that wait for a peer
            elif passed > LOOK:
                time.sleep(NAP)

    def _ended(self) -> bool:
        if not self._event.query():
            return False
        self._error = self._error or self._lane.error()
        return True

    def exception(self) -> Exception | None:
        return self._error or self._lane.error()

    def _order(self) -> Any:
        return torch.cuda.stream(self._lane.stream)

    def is_ordered(self) -> bool:
        return self._follower is None

    def _follow(self) -> None:
        if self._follower is not None:
            self._follower.add(self)
        else:
            self.complete()


def queue(lane: Lane, name: str, tensors: Any, results: Any, timeout: timedelta, issue: Callable[[], Any],
          after: Callable[[], None] | None, follower: Any) -> Queued:
    """Issues on the lane, behind what the current stream has to do, and then does `after` there."""
    lane.follow()
    with torch.cuda.stream(lane.stream):
        issued = issue()
        if after is not None:
            with torch.no_grad():
                after()
    works = [issued] if isinstance(issued, Issued) else issued
    event = lane.mark(name, timeout)
    lane.hold([*tensors, *results, *(kept for work in works for kept in work.kept())])
    return Queued(name, results, timeout, lane, event, follower)


class Watch:
    """The thread that looks after all lanes of the process. It starts with the first."""

    def __init__(self) -> None:
        self._lanes: weakref.WeakSet[Lane] = weakref.WeakSet()
        self._busy, self._lock = threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._ending = False

    def look_at(self, lane: Lane) -> None:
        """There is something under way on the lane."""
        if self._busy.is_set() and lane in self._lanes:
            return
        with self._lock:
            self._lanes.add(lane)
            if self._thread is None and not self._ending:
                self._thread = threading.Thread(target=self._run, name="tutti watch", daemon=True)
                self._thread.start()
            self._busy.set()

    def _run(self) -> None:
        relax_capture()
        while not self._ending:
            self._busy.wait()
            time.sleep(STEP)
            self._busy.clear()  # who comes from here on sets it anew
            with self._lock:
                lanes = list(self._lanes)
            if any([lane.look() for lane in lanes]):
                self._busy.set()
            del lanes

    def end(self) -> None:
        """A thread that is inside PyTorch when the interpreter ends would abort the process."""
        self._ending = True
        self._busy.set()
        if self._thread is not None:
            self._thread.join(timeout=2)


def relax_capture() -> None:
    """This thread asks for events while others capture graphs, which would otherwise become invalid by that."""
    with contextlib.suppress(OSError, AttributeError):
        mode = ctypes.c_int(CAPTURE_RELAXED)
        ctypes.CDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))


watch = Watch()
atexit.register(watch.end)
