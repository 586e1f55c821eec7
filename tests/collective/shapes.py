# SPDX-License-Identifier: Apache-2.0
"""shapes.py TUTTI SOAK DRIVER VERBS [CELL...]: random collectives on GPUs of several hosts, on the stand-in driver.

A cell is a shape of islands, a way between hosts, and what goes wrong meanwhile: 3+1/direct/loss. Ways: tcp; slots and
direct, both over the software RDMA devices of the surrounding network namespace. Faults: none; loss, of one packet in a
hundred; cut, of lanes and devices; dies, of a rank in each kind of collective; steps, of a rank when each kernel of
each composed collective begins on its GPU, or of the one collective whose number stands behind: steps:0; aborts, as
steps, but the rank aborts there. Without names one cell runs; with TUTTI_TEST_FULL=1 all do, which takes minutes.
TUTTI_TEST_SECONDS: of a cell's work.
"""
import os
import re
import subprocess
import sys
import time

SHAPES = {"1x4": (4, "0"), "2x2": (4, "TUTTI_RANK / 2"), "2x4": (8, "TUTTI_RANK / 4"), "4x2": (8, "TUTTI_RANK / 2"),
          "3+1": (4, "TUTTI_RANK / 3"), "4+2": (6, "TUTTI_RANK / 4"), "4x1": (4, "TUTTI_RANK")}
WAYS = ("tcp", "slots", "direct")
FAULTS = ("none", "loss", "cut", "dies", "steps", "aborts")
FEW = ("3+1/slots/aborts:2",)
KINDS = 14  # of job.h
COMPOSED = (0, 1, 2, 5, 6, 10)  # of job.h: allreduce, reduce, reduce-scatter, broadcast, allgather, alltoall
MOST = 40  # kernels of a job on one GPU, at most
# Slices and segments are short, so that lanes and devices go in the middle of payloads.
SETTINGS = {"TUTTI_TEST_GPU": "1", "TUTTI_STAGE_SLICE": "64K", "TUTTI_STAGE_THREADS": "2", "TUTTI_ISLANDS_FROM": "4K",
            "TUTTI_EAGER": "256", "TUTTI_DMABUF_FROM": "4K", "TUTTI_IB_TIMEOUT": "12", "TUTTI_EMULATED_ORDERING": "0",
            "TUTTI_TCP_LANES": "2", "TUTTI_TIMEOUT": "60s", "TUTTI_DEBUG": "none"}


def drop_of_tcp(on):
    """One TCP packet in a hundred is lost on the loopback device. The namespace must be the test's own."""
    rules = "add table ip loss\nadd chain ip loss each { type filter hook input priority 0; }\n" \
            "add rule ip loss each meta l4proto tcp numgen random mod 100 < 1 drop\n"
    subprocess.run(["nft", "-f", "-"], input=rules if on else "delete table ip loss\n", text=True, check=True)


def seconds_of(fault):
    return os.environ.get("TUTTI_TEST_SECONDS", "4" if fault == "none" else "6")


def arguments_of(way, fault):
    """Those of soak, one list a run."""
    if fault == "dies":
        return [["--dies", str(kind), "--seed", str(kind + 1)] for kind in range(KINDS)]
    shared = ["--seconds", seconds_of(fault)]
    if fault != "cut":
        return [[*shared, "--resets", "0"]]
    return [[*shared, "--resets", "300"] if way == "tcp" else [*shared, "--resets", "0", "--cuts", "1500"]]


def environment_of(way, fault, driver, verbs, ranks):
    env = dict(os.environ, **SETTINGS, TUTTI_EMULATED_GPUS=str(ranks),
               LD_LIBRARY_PATH=driver + ":" + os.environ.get("LD_LIBRARY_PATH", ""))
    if way == "tcp":
        return dict(env, TUTTI_IB_DISABLE="1")
    lossy = ",drop=0.01,dup=0.01,reorder=0.01,seed=7" if fault == "loss" else ""
    return dict(env, TUTTI_IBVERBS_LIBRARY=verbs, SOFTVERBS_FAULT="posted=1" + lossy,
                TUTTI_DMABUF_ENABLE="1" if way == "direct" else "0")


def run_job(name, arguments, env, programs, fault_of_last=""):
    """Returns whether all is as it should be, and what was printed."""
    tutti, soak = programs[:2]
    ranks, host = SHAPES[name.split("/")[0]]
    script = f'TUTTI_HOSTID=$(({host})); export TUTTI_HOSTID; '
    if fault_of_last:  # the launcher is not to stop the others before they have heard
        script += f'[ $TUTTI_RANK = {ranks - 1} ] && {{ export TUTTI_EMULATED_FAULT={fault_of_last}; "$0" "$@"; ' \
                  '[ $? = 137 ] && echo killed by signal 9; exit 0; }; '
    done = subprocess.run([tutti, "run", "-n", str(ranks), "--timeout", "300", "--", "sh", "-c",
                           script + 'exec "$0" "$@"', soak, *arguments], env=env, capture_output=True, text=True)
    # the launcher tells of a rank that ended before the others; what the others saw they say themselves
    said = len(re.findall("right", done.stdout)) == ranks - 1
    good = done.returncode == 0 or (arguments[0] in ("--dies", "--aborts") and said)
    if not good:
        print(f"FAILED {name} {' '.join(arguments)} {fault_of_last} ({done.returncode})")
        print(done.stdout[-3000:], done.stderr[-3000:])
    return good, done.stdout + done.stderr


def run_steps(name, env, programs, aborts):
    """The last rank dies, or aborts, when the n-th kernel begins on its GPU, until it has no n-th one."""
    right, ends, kinds = True, 0, [int(kind) for kind in name.split(":")[1:]] or COMPOSED
    option, what, sign = ("--aborts", "signals", ": aborted") if aborts else ("--dies", "dies", "killed by signal 9")
    for kind in kinds:
        for number in range(1, MOST + 1):
            good, shown = run_job(name, [option, str(kind), "--seed", "1"], env, programs, f"kernel:{number}:{what}")
            right = right and good
            if sign not in shown:
                break
            ends += 1
    return right and ends > len(kinds), f"{ends} ends"


def run_cell(name, programs):
    shape, way, fault = name.split(":")[0].split("/")
    env = environment_of(way, fault, programs[2], programs[3], SHAPES[shape][0])
    right, shown = True, ""
    began = time.time()
    if fault in ("steps", "aborts"):
        right, shown = run_steps(name, env, programs, fault == "aborts")
    else:
        if way == "tcp" and fault == "loss":
            drop_of_tcp(True)
        for arguments in arguments_of(way, fault):
            good, printed = run_job(name, arguments, env, programs)
            right = right and good
            shown = "".join(re.findall(r"total.*", printed)[:1])
        if way == "tcp" and fault == "loss":
            drop_of_tcp(False)
    print(f"{name}: {'right' if right else 'WRONG'}, {time.time() - began:.1f} s {shown}", flush=True)
    return right


def main():
    programs, names = sys.argv[1:5], sys.argv[5:]
    every = [f"{shape}/{way}/{fault}" for shape in SHAPES for way in (WAYS if shape != "1x4" else WAYS[:1])
             for fault in (FAULTS if shape != "1x4" else ("none", "dies"))]
    wanted = names or (every if os.environ.get("TUTTI_TEST_FULL") == "1" else FEW)
    failed = [name for name in wanted if not run_cell(name, programs)]
    print(f"{len(wanted)} cells, {len(failed)} failed{': ' if failed else ''}{' '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
