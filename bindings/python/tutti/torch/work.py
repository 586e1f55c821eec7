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
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work

from .._errors import Error
from .._work import Work as Issued
from .guard import guard

BackendError: type[RuntimeError] = getattr(dist, "DistBackendError", RuntimeError)


def failure(error: Exception, of: str = "") -> RuntimeError:
    """The exception that PyTorch's users know, with the library's sentence."""
    if isinstance(error, BackendError) and not isinstance(error, Error):
        return error
    return BackendError(f"tutti: {of}{error}")


def timed_out(name: str, seconds: float) -> RuntimeError:
    """What PyTorch's users look for in the words of an operation that was given up."""
    return BackendError(f"tutti: {name}: Timed out after {seconds * 1000:.0f} ms in which not all ranks took part")


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
        if self._future is None:
            devices = sorted({str(tensor.device) for tensor in self._results if tensor.device.type == "cuda"})
            end: torch.futures.Future[Any] = torch.futures.Future(devices=devices)
            # What set_exception() sets is an error for Python alone: DDP would take the exception for tensors.
            self._future = end.then(self._outcome)
            self._ends.append(end)
            self._follow()
        return self._future

    getFuture = get_future


class Collective(Operation):
    """An operation of the group's communicator: one or several issued calls, and what is done when they have ended."""

    def __init__(self, name: str, issued: Sequence[Issued], results: Sequence[torch.Tensor], timeout: timedelta,
                 give_up: Callable[[], None], follower: Follower, after: Callable[[], None] | None = None) -> None:
        super().__init__(name, results, timeout)
        self._issued: list[Issued] = list(issued)
        self._give_up, self._follower, self._after = give_up, follower, after
        self._lock = threading.Lock()
        self._over = False

    def _finish(self, seconds: float) -> None:
        if self._over:
            return
        start = time.monotonic()
        late = not self._lock.acquire(timeout=min(seconds, threading.TIMEOUT_MAX))
        if late:  # another thread waits, for longer
            self._give_up()
            self._lock.acquire()
        try:
            if late and self._error is not None:
                self._error = self._late(seconds)
            if not self._over:
                self._finish_locked(max(0.0, seconds - (time.monotonic() - start)), seconds)
        finally:
            self._lock.release()

    def _finish_locked(self, left: float, seconds: float) -> None:
        number, expired = guard.arm(left, self._give_up)
        try:
            for issued in self._issued:
                issued.wait()
            if self._after is not None:
                with torch.no_grad():  # this thread's, which need not be the caller's
                    self._after()
        except Exception as error:
            self._error = self._late(seconds) if expired else failure(error)
        finally:
            guard.disarm(number)
        self._issued, self._after, self._over = [], None, True

    def _ended(self) -> bool:
        if not self._over and self._lock.acquire(blocking=False):
            try:
                ended = all(issued.test() for issued in self._issued)
            except Exception:
                ended = True
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
