# SPDX-License-Identifier: Apache-2.0
"""Libraries that lie in the folder `tutti` beside the library in use: in the wheel, in what `make install` installs, in
Debian's packages."""
import os
import sys

from ._native import SONAME


def _library() -> str:
    """The file of the library that was loaded."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        files = [line.rstrip("\n").split(None, 5)[-1] for line in maps if "/libtutti.so." in line]
    if not files:
        raise FileNotFoundError(f"{SONAME} is not among the files that this process has loaded")
    return files[0]


def path(name: str, package: str) -> str:
    """The library `name`, which Debian has in `package`."""
    found = os.path.join(os.path.dirname(_library()), "tutti", name)
    if not os.path.exists(found):
        raise FileNotFoundError(f"there is no {found}: `make install` and the wheel have it, and so does Debian's "
                                f"package {package}")
    return found


def show(name: str, package: str) -> int:
    """Prints it; the exit status."""
    try:
        print(path(name, package))
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    return 0
