# SPDX-License-Identifier: Apache-2.0
"""What every call of a process group has in common: tensors of any dense layout, and works that are gathered."""
from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch


class Here(threading.local):
    """What the calls of one thread have to do with each other."""

    inside = False  # a call that is made of others
    gathered: list[Any] | None = None  # works between _start_coalescing and _end_coalescing


def _dense(tensor: torch.Tensor) -> bool:
    """Do the elements lie in one piece, in whichever order, none of them twice?"""
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def _turned(tensor: Any) -> bool:
    """Is it dense, in another order than the usual one: channels last, transposed?"""
    return (isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and not tensor.is_quantized
            and not tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg() and _dense(tensor))


class _Straight:
    """Contiguous stand-ins of the tensors in arguments. Elements meet by their index, whatever the layout of each rank
    is."""

    def __init__(self) -> None:
        self.pairs: list[tuple[torch.Tensor, torch.Tensor]] = []  # of results: who asked, and who stands in

    def of(self, argument: Any, results: bool) -> Any:
        """The argument, with stand-ins where they are needed."""
        if isinstance(argument, (list, tuple)):
            straight = [self.of(part, results) for part in argument]
            same = all(new is old for new, old in zip(straight, argument))
            return argument if same else straight
        if not _turned(argument):
            return argument
        with torch.no_grad():
            stand_in = argument.contiguous()
        if results:
            self.pairs.append((argument, stand_in))
        return stand_in

    def bring(self) -> None:
        """What has arrived goes to who asked."""
        for asked, stand_in in self.pairs:
            asked.copy_(stand_in)


def call(results: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A call of the group that returns a work. `results`: its first argument is written to."""

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def called(self: Any, *arguments: Any, **named: Any) -> Any:
            here = self._here
            if here.inside:
                return method(self, *arguments, **named)
            here.inside = True
            try:
                straight = _Straight()
                first, *rest = (straight.of(argument, results and place == 0)
                                for place, argument in enumerate(arguments)) if arguments else (None,)
                work = method(self, first, *rest, **named) if arguments else method(self, **named)
                if straight.pairs:
                    work = self._brought(work, [asked for asked, _ in straight.pairs], straight.bring)
            finally:
                here.inside = False
            if here.gathered is not None:
                here.gathered.append(work)
            return work

        return called

    return decorate
