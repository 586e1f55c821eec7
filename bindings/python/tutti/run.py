# SPDX-License-Identifier: Apache-2.0
"""`python -m tutti.run` is `tutti run`; the script `tutti` of the wheel is the program `tutti` that the wheel
carries."""
import os
import sys

from ._native import HERE


def program() -> str:
    carried = os.path.join(HERE, "_carried", "bin", "tutti")
    return carried if os.path.exists(carried) else "tutti"


def _become(arguments: list[str]) -> int:
    path = program()
    try:
        os.execvp(path, ["tutti", *arguments])
    except OSError as error:
        print(f"{path} cannot be started ({error.strerror}): install the package by pip, or put the "
              "program into PATH", file=sys.stderr)
    return 1


def tutti() -> int:
    """The command tutti."""
    return _become(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(_become(["run", *sys.argv[1:]]))
