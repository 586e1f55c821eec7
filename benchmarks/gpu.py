#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything that tutti promises on the GPUs of one host, part by part, compared with NCCL in turns on the same machine.

  gpu.py check     all of nccl-tests with checks, in one thread, in threads, in processes (MPI), in graphs
  gpu.py speed     all calls, as they are and in CUDA graphs, medians of rounds
  gpu.py apps      PyTorch, CuPy and JAX with tutti by LD_PRELOAD
  gpu.py first     time and device memory of communicators
  gpu.py beside    what communication costs a matrix product beside it
  gpu.py nopeer    two GPUs through host memory and through sockets
  gpu.py kill      a rank is killed, the others must go on
  gpu.py sanitize  all kernels under compute-sanitizer
  gpu.py report    the table of aims, from what the parts have left
  gpu.py all       all of these one after another

Each part stands alone, ends at its --budget of seconds, and writes FOLDER/PART.json after every step (--results FOLDER). Options of a
part: gpu.py PART --help. Exit status: 0 all went well, 1 something failed, 2 wrong arguments. Multicast (NVLS) is off throughout.
"""
import argparse
import importlib.util
import os
import signal
import sys
import traceback

from gpu_parts import apps, beside, check, first, kill, nopeer, report, run, sanitize, speed

# part: module, default budget in seconds, default limit of one program
PARTS = {"check": (check, 480, 90), "speed": (speed, 540, 90), "apps": (apps, 300, 120), "first": (first, 180, 60), "beside": (beside, 300, 120),
         "nopeer": (nopeer, 180, 60), "kill": (kill, 150, 140), "sanitize": (sanitize, 480, 180), "report": (report, 0, 0)}


def nccl_folder():
    """Where pip has put NVIDIA's library, or None."""
    try:
        found = importlib.util.find_spec("nvidia.nccl")
    except (ImportError, ValueError):
        return None
    return os.path.join(list(found.submodule_search_locations)[0], "lib") if found else None


def add_common(parser, budget, limit):
    parser.add_argument("--tests", default="tests", help="folder of nccl-tests' programs; those for MPI end in _mpi (tests)")
    parser.add_argument("--tutti", default="lib", help="folder of tutti's libnccl.so.2 and libtutti.so.0 (lib)")
    parser.add_argument("--nccl", default=nccl_folder(), help="folder of NVIDIA's libnccl.so.2 (that of pip)")
    parser.add_argument("--libraries", nargs="*", dest="which", choices=("nccl", "tutti"), default=["nccl", "tutti"], help="which to run (both)")
    parser.add_argument("--gpus", type=int, default=4)
    parser.add_argument("--results", default="results", help="folder of what the parts leave (results)")
    parser.add_argument("--budget", type=float, default=budget, help=f"seconds for the part; 0: no end ({budget})")
    parser.add_argument("--limit", type=float, default=limit, help=f"seconds for one program ({limit})")
    parser.add_argument("--quick", action="store_true", help="fewer sizes")
    parser.add_argument("--mpirun", default="mpirun", help="the launcher of one process for each GPU")


def complete(parser, options):
    """What follows from the arguments; wrong ones end the program with status 2."""
    options.tests, options.tutti, options.results = (os.path.abspath(p) for p in (options.tests, options.tutti, options.results))
    options.libraries = {}
    if options.part == "report" or getattr(options, "list", False):
        return
    alone = options.part in ("check", "sanitize") or options.part == "kill" and not options.with_nccl
    for library in ["tutti"] if alone else options.which:
        folder = getattr(options, library)
        if not folder or not os.path.exists(os.path.join(folder, "libnccl.so.2")):
            parser.error(f"--{library}: there is no libnccl.so.2 in {folder} (one library alone: --libraries)")
        options.libraries[library] = os.path.abspath(folder)
    if options.gpus < 1:
        parser.error("--gpus: at least 1")


def name_of(options):
    """What the part's file is called: speed by processes beside speed by one thread."""
    form = getattr(options, "form", "gpus")
    return options.part + ("" if form == "gpus" else "-" + form)


def one(options):
    """Runs a part; whatever happens in it, what it has left is saved."""
    if options.part == "report" or getattr(options, "list", False):
        return PARTS[options.part][0].main(options, None)
    results = run.Results(options.results, name_of(options), keep=getattr(options, "more", False), gpus=options.gpus)
    try:
        return PARTS[options.part][0].main(options, results)
    except Exception:  # the next part goes on
        traceback.print_exc()
        results.data.setdefault("complaints", []).append(traceback.format_exc())
        results.save()
        return 1


def all_parts(parser, options, rest):
    """Every part with its own defaults and what was given for all."""
    failed = []
    for part in PARTS:
        run.say(f"==== {part}")
        mine = parser.parse_args([part, *rest])
        complete(parser, mine)
        if one(mine):
            failed.append(part)
    print("failed: " + ", ".join(failed) if failed else "all parts went well")
    return failed


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    below = parser.add_subparsers(dest="part", required=True, metavar="PART")
    for name, (module, budget, limit) in PARTS.items():
        part = below.add_parser(name, help=module.__doc__.partition(": ")[2].splitlines()[0], description=module.__doc__)
        add_common(part, budget, limit)
        module.add_arguments(part)
    everything = below.add_parser("all", help="all parts one after another")
    add_common(everything, 0, 0)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, run.stop)
    signal.signal(signal.SIGINT, run.stop)
    if options.part == "all":
        return 1 if all_parts(parser, options, [a for a in arguments if a != "all"]) else 0
    complete(parser, options)
    return 1 if one(options) else 0


if __name__ == "__main__":
    sys.exit(main())
