# SPDX-License-Identifier: Apache-2.0
"""`python -m tutti.nccl` prints where libnccl.so.2 is, NCCL's interface over tutti: for LD_PRELOAD."""
import sys

from . import _beside

NAME, PACKAGE = "libnccl.so.2", "libnccl2-tutti"


def path() -> str:
    """The libnccl.so.2 beside the library in use."""
    return _beside.path(NAME, PACKAGE)


if __name__ == "__main__":
    sys.exit(_beside.show(NAME, PACKAGE))
