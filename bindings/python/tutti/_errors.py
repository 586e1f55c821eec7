# SPDX-License-Identifier: Apache-2.0
"""What the library's results are in Python: one class of exception for each, with the library's sentence."""
from __future__ import annotations

import enum


class Result(enum.IntEnum):
    """tutti_result_t."""

    SUCCESS = 0
    DEVICE_ERROR = 1
    SYSTEM_ERROR = 2
    INTERNAL_ERROR = 3
    INVALID_ARGUMENT = 4
    INVALID_USAGE = 5
    REMOTE_ERROR = 6
    IN_PROGRESS = 7


class Error(RuntimeError):
    """A call of the library failed. `str()` is the library's sentence; `code` the result."""

    code = Result.INTERNAL_ERROR

    def __init__(self, sentence: str, code: Result | None = None) -> None:
        super().__init__(sentence)
        if code is not None:
            self.code = code


class DeviceError(Error):
    """A call of the device's driver failed."""

    code = Result.DEVICE_ERROR


class SystemFailure(Error, OSError):
    """The operating system refused: memory, sockets, files."""

    code = Result.SYSTEM_ERROR


class InvalidArgument(Error, ValueError):
    """One argument is wrong by itself: a rank out of range, a negative count."""

    code = Result.INVALID_ARGUMENT


class InvalidUsage(Error):
    """Arguments do not fit together, or the call does not fit the state or the peers."""

    code = Result.INVALID_USAGE


class RemoteError(Error, ConnectionError):
    """A peer died, left, or did not answer in time."""

    code = Result.REMOTE_ERROR


class Timeout(Error, TimeoutError):
    """wait() was given a time, and the operation has not ended in it. The operation goes on."""

    code = Result.IN_PROGRESS


CLASSES: dict[int, type[Error]] = {
    kind.code: kind for kind in (DeviceError, SystemFailure, InvalidArgument, InvalidUsage, RemoteError)}


def error_of(result: int, sentence: str) -> Error:
    """The exception for a result that is not success."""
    return CLASSES.get(result, Error)(sentence, Result(result))
