#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything that tutti promises on the GPUs of one host, part by part,
compared with NCCL in turns on the same machine.

  gpu.py check     all of nccl-tests with checks, in one thread, in threads, in processes (MPI), in graphs
  gpu.py speed     all calls, as they are and in CUDA graphs, medians of rounds
  gpu.py apps      PyTorch, CuPy and JAX with tutti by LD_PRELOAD
  gpu.py first     time and device memory of communicators
  gpu.py layers    a decoder's all-reduces over NCCL, its windows, PyTorch's symmetric memory, and tutti
  gpu.py pipeline  a step of a pipeline whose messages go beside its products
  gpu.py beside    what communication costs a matrix product beside it
  gpu.py late      what calls cost when the host of one rank comes late
  gpu.py groups    what a group of many small calls takes
  gpu.py nopeer    two GPUs through host memory and through sockets
  gpu.py plugin    unmodified NCCL over tutti's network plugin, also while lanes are cut
  gpu.py suite     PyTorch's suite for back ends, and accelerate's scripts, over both
  gpu.py kill      a rank is killed, the others must go on
  gpu.py sanitize  all kernels under compute-sanitizer
  gpu.py limits    what the machine can do without any library
  gpu.py report    the table of aims, from what the parts have left
  gpu.py all       all of these, quickly, one after another, in 590 seconds

Each part stands alone, ends at its --budget of seconds, and writes FOLDER/results.json after every step (--results
FOLDER). Options of a part: gpu.py PART --help. Exit status: 0 all went well, 1 something failed, 2 wrong arguments.
Multicast (NVLS) is off throughout.
"""
import argparse
import importlib.util
import os
import signal
import sys
import traceback

from gpu_parts import (apps, beside, check, comm_setup, groups, kill, late_rank, layers, limits, nopeer, pipeline,
                       plugin, report, run, sanitize, speed, suite)

# part: module, default budget in seconds, default limit of one program, share of the seconds of `all`
PARTS = {"kill": (kill, 150, 140, 10), "first": (comm_setup, 180, 60, 15), "nopeer": (nopeer, 180, 60, 28),
         "beside": (beside, 300, 120, 66), "late": (late_rank, 120, 60, 26), "groups": (groups, 90, 40, 16),
         "layers": (layers, 240, 110, 22), "pipeline": (pipeline, 240, 60, 34), "speed": (speed, 540, 90, 72),
         "apps": (apps, 300, 120, 130), "suite": (suite, 500, 150, 0),
         "plugin": (plugin, 200, 60, 0), "sanitize": (sanitize, 300, 120, 20), "limits": (limits, 90, 80, 20),
         "check": (check, 300, 90, 205), "report": (report, 0, 0, 0)}


def nccl_folder():
    """Where pip has put NVIDIA's library, or None."""
    try:
        found = importlib.util.find_spec("nvidia.nccl")
    except (ImportError, ValueError):
        return None
    return os.path.join(list(found.submodule_search_locations)[0], "lib") if found else None


def add_common(parser):
    parser.add_argument("--tests", default="tests",
                        help="folder of nccl-tests' programs; those for MPI end in _mpi (tests)")
    parser.add_argument("--tutti", default="lib", help="folder of tutti's libnccl.so.2 and libtutti.so.0 (lib)")
    parser.add_argument("--nccl", default=nccl_folder(), help="folder of NVIDIA's libnccl.so.2 (that of pip)")
    parser.add_argument("--libraries", nargs="*", dest="which", choices=("nccl", "tutti"), default=["nccl", "tutti"],
                        help="which to run (both)")
    parser.add_argument("--gpus", type=int, default=4)
    parser.add_argument("--results", default="results", help="folder of what the parts leave (results)")
    parser.add_argument("--mpirun", default="mpirun", help="the launcher of one process for each GPU")


def complete(parser, options):
    """What follows from the arguments; wrong ones end the program with status 2."""
    options.tests, options.tutti, options.results = (os.path.abspath(p)
                                                     for p in (options.tests, options.tutti, options.results))
    options.libraries = {}
    if options.gpus < 1:
        parser.error("--gpus: at least 1")
    if options.part in ("report", "limits") or getattr(options, "list", False):
        return
    alone = options.part in ("check", "sanitize") or options.part == "kill" and not options.with_nccl
    for library in ["tutti"] if alone else options.which:
        folder = getattr(options, library)
        if not folder or not os.path.exists(os.path.join(folder, "libnccl.so.2")):
            parser.error(f"--{library}: there is no libnccl.so.2 in {folder} (one library alone: --libraries)")
        options.libraries[library] = os.path.abspath(folder)


def name_of(options):
    """What the part's results are called: those of a form that is not its usual one stand beside them."""
    usual = getattr(PARTS[options.part][0], "FORM", None)
    form = getattr(options, "form", usual)
    return options.part + ("" if form == usual else "-" + form)


def one(options):
    """Runs a part; whatever happens in it, what it has left is saved."""
    if options.part == "report" or getattr(options, "list", False):
        return PARTS[options.part][0].main(options, None)
    results = run.Results(options.results, name_of(options), keep=getattr(options, "more", False), gpus=options.gpus)
    results.save()
    try:
        return PARTS[options.part][0].main(options, results)
    except Exception:  # the next part goes on
        traceback.print_exc()
        results.data.setdefault("complaints", []).append(traceback.format_exc())
        results.save()
        return 1


def all_parts(parser, options):
    """Every part, quickly. What one leaves of its share of the time goes to those that follow; the last one, check,
    can use any."""
    rest = ["--quick", "--gpus", str(options.gpus), "--libraries", *options.which]
    for name in ("tests", "tutti", "nccl", "results", "mpirun"):
        rest += [f"--{name}", getattr(options, name)] if getattr(options, name) else []
    failed, budget = [], run.Budget(options.budget_total)
    parts = [part for part in PARTS if part not in ("suite", "plugin")]  # of which each takes as long as all others
    for part in parts:
        to_come = sum(PARTS[later][3] for later in parts[parts.index(part):])
        mine = parser.parse_args([part, *rest])
        if to_come and options.budget_total:
            mine.budget = max(1.0, (budget.left() - 3) * PARTS[part][3] / to_come)
        run.say(f"==== {part}" + (f", {mine.budget:.0f} s" if mine.budget else ""))
        complete(parser, mine)
        if one(mine):
            failed.append(part)
    print("with failures, or missed their end: " + ", ".join(failed) if failed else "all parts went well")
    return failed


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    below = parser.add_subparsers(dest="part", required=True, metavar="PART")
    for name, (module, budget, limit, _) in PARTS.items():
        part = below.add_parser(name, help=module.__doc__.partition(": ")[2].split("\n\n")[0],
                                description=module.__doc__)
        add_common(part)
        part.add_argument("--budget", type=float, default=budget, help=f"seconds for the part; 0: no end ({budget})")
        part.add_argument("--limit", type=float, default=limit, help=f"seconds for one program ({limit})")
        part.add_argument("--quick", action="store_true", help="less, so that all parts together fit into ten minutes")
        module.add_arguments(part)
    everything = below.add_parser("all", help="all parts one after another, with --quick")
    add_common(everything)
    everything.add_argument("--budget-total", type=float, default=590,
                            help="seconds for all; 0: each part has its own budget (590)")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, run.stop)
    signal.signal(signal.SIGINT, run.stop)
    if options.part == "all":
        return 1 if all_parts(parser, options) else 0
    complete(parser, options)
    return 1 if one(options) else 0


if __name__ == "__main__":
    sys.exit(main())
