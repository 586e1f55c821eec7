# SPDX-License-Identifier: Apache-2.0
"""`python -m tutti.nccl` prints where libnccl.so.2 is, NCCL's interface over tutti: for LD_PRELOAD."""
import os
import sys

from ._native import SONAME

NAME = "libnccl.so.2"


def _library() -> str:
    """The file of the library that was loaded."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        files = [line.rstrip("\n").split(None, 5)[-1] for line in maps if "/libtutti.so." in line]
    if not files:
        raise FileNotFoundError(f"{SONAME} is not among the files that this process has loaded")
    return files[0]


def path() -> str:
    """The libnccl.so.2 that lies in the folder `tutti` beside the library in use: in the wheel, in what `make install`
    installs, in Debian's package."""
    found = os.path.join(os.path.dirname(_library()), "tutti", NAME)
    if not os.path.exists(found):
        raise FileNotFoundError(f"there is no {found}: `make install` and the wheel have it, and so does Debian's "
                                "package libnccl2-tutti")
    return found


def main() -> int:
    try:
        print(path())
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
