# SPDX-License-Identifier: Apache-2.0
"""Work objects of torch.distributed."""
from __future__ import annotations

import atexit
import contextlib
import queue
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work

from .._errors import Error
from .._work import Work as Issued
from .guard import guard

if TYPE_CHECKING:
    from .late import Limit

BackendError: type[RuntimeError] = getattr(dist, "DistBackendError", RuntimeError)


def failure(error: Exception, of: str = "", after: str = "") -> RuntimeError:
    """The exception that PyTorch's users know, with the library's sentence."""
    if isinstance(error, BackendError) and not isinstance(error, Error):
        return error
    return BackendError(f"tutti: {of}{error}{after}")


def timed_out(name: str, seconds: float, culprit: str = "") -> RuntimeError:
    """What PyTorch's users look for in the words of an operation that was given up."""
    why = f": {culprit}" if culprit else " in which not all ranks took part"
    return BackendError(f"tutti: {name}: Timed out after {seconds * 1000:.0f} ms{why}")


_asked = threading.local()  # .operation: whose future was asked for, while .who is set


def operation_of(work: Work, get_future: Callable[[Work], Any]) -> Operation | None:
    """Which of the operations here a work of C++ holds, which passes on nothing but wait and the future: so the future
    is asked for, by its original method, and the operation that answers is it."""
    _asked.who, _asked.operation = True, None
    try:
        with contextlib.suppress(RuntimeError, NotImplementedError):
            get_future(work)
        return _asked.operation
    finally:
        _asked.who, _asked.operation = False, None


class Operation(Work):
    """What every operation has in common: an end, an error, a result and a future."""

    def __init__(self, name: str, results: Sequence[torch.Tensor], timeout: timedelta) -> None:
        super().__init__()
        self._name, self._results, self._timeout = name, results, timeout
        self._error: Exception | None = None
        self._future: torch.futures.Future[Any] | None = None
        self._ends: list[torch.futures.Future[Any]] = []  # of the one who asked, until it is told
        self._source = -1

    def _finish(self, seconds: float) -> None:
        """Returns when the operation has ended, well or not, or when it is given up after `seconds`."""
        raise NotImplementedError

    def _ended(self) -> bool:
        raise NotImplementedError

    def _follow(self) -> None:
        """Sees to it that somebody calls complete()."""
        raise NotImplementedError

    def _late(self, seconds: float) -> RuntimeError:
        return timed_out(self._name, seconds)

    def is_ordered(self) -> bool:
        """Do streams of GPUs wait for it, and no thread?"""
        return False

    def _order(self) -> Any:
        """A context in which the streams of GPUs are those that the results come by."""
        return contextlib.nullcontext()

    def complete(self) -> None:
        """Waits for the end, and tells the future."""
        self._finish(self._timeout.total_seconds())
        try:
            end = self._ends.pop()
        except IndexError:  # nobody has asked, or another thread tells
            return
        with self._order():
            end.set_result(list(self._results))

    def _outcome(self, _: Any) -> list[torch.Tensor]:
        if self._error is not None:
            raise self._error
        return list(self._results)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        self._finish((timeout if timeout > timedelta(0) else self._timeout).total_seconds())
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._ended()

    def is_success(self) -> bool:
        return self._ended() and self._error is None

    def exception(self) -> Exception | None:
        return self._error

    def result(self) -> list[torch.Tensor]:
        return list(self._results)

    def source_rank(self) -> int:
        return self._source

    def _source_rank(self) -> int:
        return self._source

    def get_future(self) -> Any:
        if getattr(_asked, "who", False):
            _asked.operation = self
            return torch.futures.Future()
        if self._future is None:
            devices = sorted({str(tensor.device) for tensor in self._results if tensor.device.type == "cuda"})
            end: torch.futures.Future[Any] = torch.futures.Future(devices=devices)
            # What set_exception() sets is an error for Python alone: DDP would take the exception for tensors.
            self._future = end.then(self._outcome)
            self._ends.append(end)
            self._follow()
        return self._future

    getFuture = get_future


class _Awaited(Operation):
    """An operation whose end a thread waits for: one at a time, which then says so to all."""

    def __init__(self, name: str, results: Sequence[torch.Tensor], timeout: timedelta, follower: Follower,
                 after: Callable[[], None] | None) -> None:
        super().__init__(name, results, timeout)
        self._follower, self._after = follower, after
        self._lock = threading.Lock()
        self._over = False

    def _expire(self, seconds: float) -> None:
        """The time is up for what another thread still waits for."""
        raise NotImplementedError

    def _await(self, left: float, seconds: float) -> None:
        """Waits for the end, `left` of all the `seconds`, and sets the error."""
        raise NotImplementedError

    def _all_ended(self) -> bool:
        raise NotImplementedError

    def _finish(self, seconds: float) -> None:
        if self._over:
            return
        start = time.monotonic()
        late = not self._lock.acquire(timeout=min(seconds, threading.TIMEOUT_MAX))
        if late:  # another thread waits, for longer
            self._expire(seconds)
            self._lock.acquire()
        try:
            if late and self._error is not None:
                self._error = self._late(seconds)
            if not self._over:
                self._await(max(0.0, seconds - (time.monotonic() - start)), seconds)
                self._conclude()
        finally:
            self._lock.release()

    def _conclude(self) -> None:
        if self._after is not None and self._error is None:
            try:
                with torch.no_grad():  # this thread's, which need not be the caller's
                    self._after()
            except Exception as error:
                self._error = failure(error)
        self._after, self._over = None, True

    def _ended(self) -> bool:
        if not self._over and self._lock.acquire(blocking=False):
            try:
                ended = self._all_ended()
            finally:
                self._lock.release()
            if ended:
                self._finish(self._timeout.total_seconds())
        return self._over

    def _follow(self) -> None:
        if self._over:
            self.complete()
        else:
            self._follower.add(self)


class Collective(_Awaited):
    """An operation of the group's communicator: one or several issued calls, and what is done when they have ended."""

    def __init__(self, name: str, issued: Sequence[Issued], results: Sequence[torch.Tensor], timeout: timedelta,
                 limit: Limit, follower: Follower, after: Callable[[], None] | None = None) -> None:
        super().__init__(name, results, timeout, follower, after)
        self._issued: list[Issued] = list(issued)
        self._limit = limit

    def _expire(self, seconds: float) -> None:
        self._limit.expire(seconds)

    def _late(self, seconds: float) -> RuntimeError:
        return timed_out(self._name, seconds, self._limit.culprit)

    def _await(self, left: float, seconds: float) -> None:
        number, expired = guard.arm(left, lambda: self._limit.expire(seconds))
        try:
            for issued in self._issued:
                issued.wait()
        except Exception as error:
            culprit = self._limit.culprit or self._limit.left(error)
            self._error = (timed_out(self._name, seconds, culprit) if expired
                           else failure(error, after=f": {culprit}" if culprit else ""))
        finally:
            guard.disarm(number)
        self._issued = []

    def _all_ended(self) -> bool:
        try:
            return all(issued.test() for issued in self._issued)
        except Exception:
            return True


class Several(_Awaited):
    """One work for several, of which the first one's limit of time holds for all; or for one, and what is done behind
    it."""

    def __init__(self, works: Sequence[Operation], results: Sequence[torch.Tensor], follower: Follower,
                 after: Callable[[], None] | None = None) -> None:
        super().__init__(works[0]._name, results, works[0]._timeout, follower, after)
        self._works = list(works)
        self._source = works[0]._source

    def _expire(self, seconds: float) -> None:
        for work in self._works:
            work._finish(0.0)

    def _await(self, left: float, seconds: float) -> None:
        until = time.monotonic() + left
        for work in self._works:
            work._finish(max(0.0, until - time.monotonic()))
            self._error = self._error or work._error
        self._source = self._works[0]._source

    def _all_ended(self) -> bool:
        return all([work._ended() for work in self._works])

    def _order(self) -> Any:
        return self._works[-1]._order()

    def _follow(self) -> None:
        if all(work.is_ordered() for work in self._works):
            self.complete()
        else:
            super()._follow()


class Follower:
    """A thread that completes operations whose future somebody holds, in their order. It starts with the first."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Operation | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def add(self, operation: Operation) -> None:
        if threading.current_thread() is self._thread:  # what a future calls, waits for another one
            operation.complete()
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tutti futures", daemon=True)
            self._thread.start()
            _followers.add(self)
        self._queue.put(operation)

    def _run(self) -> None:
        while (operation := self._queue.get()) is not None:
            operation.complete()
            del operation  # its tensors are not kept while nothing is to be done

    def close(self) -> None:
        """The thread ends when all is complete."""
        if self._thread is not None:
            self._queue.put(None)
            if threading.current_thread() is not self._thread:
                self._thread.join(timeout=5)


_followers: weakref.WeakSet[Follower] = weakref.WeakSet()


@atexit.register
def _end_followers() -> None:
    """A thread that is inside PyTorch when the interpreter ends would abort the process."""
    for follower in list(_followers):
        follower.close()
