# SPDX-License-Identifier: Apache-2.0
"""Which of the library's operators is PyTorch's, and what is done where there is none."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from .._buffers import TYPES

OPS = {"SUM": "sum", "PRODUCT": "prod", "MIN": "min", "MAX": "max", "AVG": "avg"}
# Of what the library has no operator or type for all inputs are gathered, and reduced by PyTorch.
FOLDS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "SUM": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum,
    "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}
BOOLEAN = {"SUM": "max", "PRODUCT": "min", "MIN": "min", "MAX": "max"}


class Reduction(NamedTuple):
    """`name`: the library's operator; None: `fold` reduces what was gathered."""

    name: str | None
    # the tensor as one of a type that the library has
    seen: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: tensor
    fold: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None


def _name(op: Any) -> str:
    kind = getattr(op, "op", op)  # ReduceOp, or the number inside
    for name in (*OPS, "BAND", "BOR", "BXOR", "PREMUL_SUM"):
        if getattr(dist.ReduceOp, name, None) == kind:
            return name
    return str(op)


@functools.lru_cache(None)
def _folds(name: str, kind: torch.dtype) -> bool:
    """Does PyTorch reduce this type so? All ranks must know before anything is sent, not the root when it has come."""
    try:
        FOLDS[name](torch.zeros(1, dtype=kind), torch.zeros(1, dtype=kind))
    except (RuntimeError, TypeError):
        return False
    return True


def choose(op: Any, tensor: torch.Tensor) -> Reduction:
    """How tensors of this type are reduced."""
    name = _name(op)
    kind = str(tensor.dtype).removeprefix("torch.")
    if kind == "bool" and name in BOOLEAN:
        return Reduction(BOOLEAN[name], lambda tensor: tensor.view(torch.uint8))
    if kind in TYPES and name in OPS:
        return Reduction(OPS[name])
    if name == "SUM" and tensor.is_complex():
        return Reduction("sum", torch.view_as_real)
    if name in FOLDS and (kind not in TYPES or name.startswith("B")) and _folds(name, tensor.dtype):
        return Reduction(None, fold=FOLDS[name])
    raise ValueError(f"tutti cannot reduce {kind} by {name}: there are {', '.join(OPS)} for {', '.join(TYPES)}, "
                     "BAND, BOR and BXOR for integers")
