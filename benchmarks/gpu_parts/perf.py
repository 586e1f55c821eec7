# SPDX-License-Identifier: Apache-2.0
"""The programs of nccl-tests: how they are started, and what their tables say."""
import collections
import os
import re
import shutil
import statistics

from . import run

REDUCING = ("all_reduce", "reduce_scatter", "reduce")
MOVING = ("all_gather", "broadcast", "alltoall", "alltoallv", "gather", "scatter", "sendrecv", "hypercube")
PROGRAMS = REDUCING + MOVING

Row = collections.namedtuple("Row", "size count type op root us algbw busbw wrong us_in algbw_in busbw_in wrong_in")


def rows(text):
    """The lines of a program's table. What is out of place has plain names, what is in place names that end in _in."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) == 12:  # hypercube has no column for the operator
            words.insert(3, "none")
        if len(words) < 13 or not words[0].isdigit() or not words[1].isdigit() or not int(words[0]):
            continue
        try:
            found.append(Row(int(words[0]), int(words[1]), words[2], words[3], words[4], *map(float, words[5:8]),
                             words[8], *map(float, words[9:12]), words[12]))
        except ValueError:  # what another process has written into the line
            pass
    return found


def wrong(text):
    """What a run with -c 1 says is wrong, as sentences."""
    said = []
    for row in rows(text):
        if not {row.wrong, row.wrong_in} <= {"0", "N/A"}:
            said.append(f"{row.size} bytes of {row.type} {row.op} root {row.root}: {row.wrong} wrong, in place "
                        f"{row.wrong_in}")
    bounds = re.search(r"Out of bounds values\s*:\s*(\d+)", text)
    if bounds and int(bounds.group(1)):
        said.append(f"{bounds.group(1)} values out of bounds")
    return said


def own_host(options, gpus):
    """What runs a process of mpirun as one of its host, where there are several."""
    number = f"$((OMPI_COMM_WORLD_RANK * {options.hosts} / {gpus}))"
    setting = f'export NCCL_SOCKET_IFNAME=lo NCCL_HOSTID={number}; exec "$0" "$@"'
    return ["sh", "-c", setting] if options.hosts > 1 else []


def command(options, program, form, arguments, gpus=None):
    """form: gpus (one thread for all GPUs), threads (a thread a GPU), processes (a process a GPU, under mpirun)."""
    gpus = str(gpus or options.gpus)
    path = os.path.join(options.tests, program + "_perf")
    if form == "processes":
        return [options.mpirun, "-np", gpus, "--bind-to", "none", *own_host(options, gpus), path + "_mpi", "-g", "1",
                *arguments]
    return [path, "-t", gpus, "-g", "1", *arguments] if form == "threads" else [path, "-g", gpus, *arguments]


def missing(options, program, form):
    """Why a program cannot be run in that form, or None."""
    if form != "processes" and options.hosts > 1:
        return "a process is on one host"
    path = os.path.join(options.tests, program + ("_perf_mpi" if form == "processes" else "_perf"))
    if not os.path.exists(path):
        return f"there is no {path}"
    if form == "processes" and not shutil.which(options.mpirun):
        return f"there is no {options.mpirun}"
    return None


def start(options, folder, program, form, arguments, limit, extra=None, gpus=None):
    """Runs a program with the libnccl.so.2 in folder."""
    return run.run(command(options, program, form, arguments, gpus), run.environment(folder, extra), limit)


def medians(points):
    """{case or mode: {bytes: {library: (us, bus GB/s)}}}"""
    found = {}
    for name, libraries in points.items():
        for library, sizes in libraries.items():
            for size, rows in sizes.items():
                pair = tuple(statistics.median(row[at] for row in rows) for at in (0, 1))
                found.setdefault(name, {}).setdefault(int(size), {})[library] = pair
    return found
