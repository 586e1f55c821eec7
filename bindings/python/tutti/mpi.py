# SPDX-License-Identifier: Apache-2.0
"""`python -m tutti.mpi` prints where libmpi.so.12 is, MPI's calls over tutti: for JAX and mpi4py."""
import sys

from . import _beside

NAME, PACKAGE = "mpi/libmpi.so.12", "libtutti0"


def path() -> str:
    """The libmpi.so.12 beside the library in use."""
    return _beside.path(NAME, PACKAGE)


if __name__ == "__main__":
    sys.exit(_beside.show(NAME, PACKAGE))
