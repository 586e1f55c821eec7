#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts through how many files one goes who follows the count of an allreduce on GPUs from the call to the kernel.

    stays.py BUILD [--bytes N] [--list]     BUILD: one of --buildtype=debug, where no function is inlined

gdb steps through one call, on the stand-in driver. A function counts if it takes the call, its plan, what a kernel is
given, or a number of elements or bytes; functions of src/base do not count. Functions of one file that follow one
another are one stay there. A stay in a file where an earlier stay was is a return. The call is the fifth of a
communicator of two threads.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

CARRIES = re.compile(r"struct (call|plan|kernel_\w+|executor_call|copies|planned)\b|\b(count|bytes|given|size|length)$")
CALL, EARLIER = "tutti_allreduce", 8  # calls of both threads before it


def carries(frame):
    """Does one of the arguments have the count in it?"""
    return any(symbol.is_argument and CARRIES.search(f"{symbol.type} {symbol.name}") for symbol in frame.block())


def stack(frame):
    """Outermost first."""
    frames = []
    while frame:
        frames.append(frame)
        frame = frame.older()
    return frames[::-1]


def inside():
    """What gdb runs."""
    import gdb  # pylint: disable=import-error,import-outside-toplevel
    for setting in ("pagination off", "breakpoint pending on", "print thread-events off", "confirm off"):
        gdb.execute("set " + setting)
    gdb.execute("skip -gfi */emulation/*")
    gdb.execute("skip -gfi */src/base/*")
    first = gdb.Breakpoint(CALL)
    first.ignore_count = EARLIER
    gdb.execute("run")
    first.delete()
    now = stack(gdb.newest_frame())
    outer = now[-1]
    steps = [("src/api/collective.c", CALL)]
    while outer in now:
        gdb.execute("step", to_string=True)
        before, now = now, stack(gdb.newest_frame())
        function = now[-1].function()
        if now[-1] in before or not function or "/src/" not in function.symtab.filename:
            continue
        if carries(now[-1]):
            steps.append((re.sub(r".*/src/", "src/", function.symtab.filename), now[-1].name()))
    with open(os.environ["STAYS_OUT"], "w", encoding="utf-8") as out:
        out.writelines(f"{path} {name}\n" for path, name in steps)
    gdb.execute("kill")


def tell(steps, whole):
    """The table."""
    stays, files = [], set()
    for path, name in steps:
        if not stays or stays[-1][0] != path:
            stays.append((path, []))
        stays[-1][1].append(name)
    for path, names in stays if whole else ():
        print(f"{'  ' if path in files else '* '}{path}: {', '.join(names)}")
        files.add(path)
    files = {path for path, _ in stays}
    print(f"{len(steps)} functions, {len(stays)} stays in {len(files)} files, {len(stays) - len(files)} returns")


def main():
    """Starts gdb on this same file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--bytes", default="64M")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    tutti = os.path.join(build, "cli", "tutti")
    with tempfile.NamedTemporaryFile("r") as out:
        environment = dict(os.environ, STAYS_OUT=out.name)
        environment["LD_LIBRARY_PATH"] = os.path.join(build, "emulation", "cuda")
        environment["TUTTI_GATHER_FROM"] = "32M"
        size = arguments.bytes
        done = subprocess.run(
            ["gdb", "-q", "-nx", "-batch", "-x", __file__, "--args", tutti, "perf", "allreduce", "--gpu", "-t", "2",
             "-b", size, "-e", size, "-w", "10", "-n", "2", "-c", "0"],
            env=environment, capture_output=True, text=True, timeout=500, check=False)
        steps = [line.split() for line in out]
    if not steps:
        sys.exit(f"gdb followed no call:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    tell(steps, arguments.list)


if "STAYS_OUT" in os.environ:
    inside()
elif __name__ == "__main__":
    main()
