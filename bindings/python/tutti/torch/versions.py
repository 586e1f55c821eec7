# SPDX-License-Identifier: Apache-2.0
"""What versions of PyTorch have, and which of them were tested."""
from __future__ import annotations

import functools
import warnings

import torch
from torch._C import _distributed_c10d

# By bindings/python/tests/torch_matrix.py; docs/use/python.md has its table.
TESTED = ("1.13", "2.11", "2.12", "2.13", "2.14", "2.15")


PYTORCH_1 = torch.__version__.startswith("1.")


@functools.lru_cache(None)
def extends_backend() -> bool:
    """Can Python extend PyTorch's class of backends? From 2.14 on. Until then Python makes process groups alone."""
    if not hasattr(_distributed_c10d, "Backend"):
        return False

    class Probe(_distributed_c10d.Backend):  # type: ignore[misc,name-defined]
        pass

    try:
        Probe(0, 1)
    except TypeError:
        return False
    return True


@functools.lru_cache(None)
def name_untested() -> None:
    """Warns once of a version that nobody has tried."""
    version = ".".join(torch.__version__.split("+")[0].split(".")[:2])
    if version not in TESTED:
        warnings.warn(f"tutti was tested with PyTorch {', '.join(TESTED)}; this is {torch.__version__}. Calls whose "
                      "contract is unknown are refused. bindings/python/tests/torch_matrix.py tries every feature",
                      stacklevel=2)
