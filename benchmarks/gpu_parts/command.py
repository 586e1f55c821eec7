# SPDX-License-Identifier: Apache-2.0
"""The command line that benchmarks/gpu.py and tests/gpu/run.py share: parts, each with its options, and `all`."""
import argparse
import collections
import importlib.util
import os
import signal
import sys
import traceback

from . import run

# budget: seconds for the part; limit: seconds for one program; share: of the seconds of `all`; all: is it one of `all`?
Part = collections.namedtuple("Part", "module budget limit share all", defaults=(True,))


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
    if not 1 <= options.hosts <= options.gpus:
        parser.error("--hosts: at least 1, at most one for each GPU")
    if options.hosts > 1 and getattr(options, "form", "processes") != "processes":
        parser.error("--hosts: a host has processes of its own (--form processes)")
    if options.part in ("report", "limits", "hosts") or getattr(options, "list", False):
        return
    alone = options.part in ("check", "sanitize") or options.part == "kill" and not options.with_nccl
    for library in ["tutti"] if alone else options.which:
        folder = getattr(options, library)
        if not folder or not os.path.exists(os.path.join(folder, "libnccl.so.2")):
            parser.error(f"--{library}: there is no libnccl.so.2 in {folder} (one library alone: --libraries)")
        options.libraries[library] = os.path.abspath(folder)


def name_of(module, options):
    """What the part's results are called: those of a form that is not its usual one stand beside them."""
    usual = getattr(module, "FORM", None)
    form = getattr(options, "form", usual)
    return options.part + ("" if form == usual else "-" + form)


def one(module, options):
    """Runs a part; whatever happens in it, what it has left is saved."""
    if options.part == "report" or getattr(options, "list", False):
        return module.main(options, None)
    results = run.Results(options.results, name_of(module, options), keep=getattr(options, "more", False),
                          gpus=options.gpus)
    results.save()
    try:
        return module.main(options, results)
    except Exception:  # the next part goes on
        traceback.print_exc()
        results.data.setdefault("complaints", []).append(traceback.format_exc())
        results.save()
        return 1


def all_parts(parts, parser, options):
    """Every part, quickly. What one leaves of its share of the time goes to those that follow; the last one can use
    any."""
    rest = ["--quick", "--gpus", str(options.gpus), "--libraries", *options.which]
    for name in ("tests", "tutti", "nccl", "results", "mpirun"):
        rest += [f"--{name}", getattr(options, name)] if getattr(options, name) else []
    failed, budget = [], run.Budget(options.budget_total)
    names = [name for name, part in parts.items() if part.all]
    for at, name in enumerate(names):
        to_come = sum(parts[later].share for later in names[at:])
        mine = parser.parse_args([name, *rest])
        if to_come and options.budget_total:
            mine.budget = max(1.0, (budget.left() - 3) * parts[name].share / to_come)
        run.say(f"==== {name}" + (f", {mine.budget:.0f} s" if mine.budget else ""))
        complete(parser, mine)
        if one(parts[name].module, mine):
            failed.append(name)
    print("with failures, or missed their end: " + ", ".join(failed) if failed else "all parts went well")
    return failed


def main(parts, about, seconds, arguments):
    """parts: {name: Part}; about: the help; seconds: for all parts together. Returns the exit status."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    below = parser.add_subparsers(dest="part", required=True, metavar="PART")
    for name, (module, budget, limit, _, _) in parts.items():
        part = below.add_parser(name, help=module.__doc__.partition(": ")[2].split("\n\n")[0],
                                description=module.__doc__)
        add_common(part)
        part.add_argument("--budget", type=float, default=budget, help=f"seconds for the part; 0: no end ({budget})")
        part.add_argument("--limit", type=float, default=limit, help=f"seconds for one program ({limit})")
        part.add_argument("--hosts", type=int, default=1,
                          help="as how many hosts the GPUs pass (NCCL_HOSTID); loopback is their network (1)")
        part.add_argument("--quick", action="store_true", help="less, so that all parts together fit into ten minutes")
        module.add_arguments(part)
    everything = below.add_parser("all", help="all parts one after another, with --quick")
    add_common(everything)
    everything.add_argument("--budget-total", type=float, default=seconds,
                            help=f"seconds for all; 0: each part has its own budget ({seconds})")
    options = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    signal.signal(signal.SIGTERM, run.stop)
    signal.signal(signal.SIGINT, run.stop)
    if options.part == "all":
        return 1 if all_parts(parts, parser, options) else 0
    complete(parser, options)
    return 1 if one(parts[options.part].module, options) else 0
