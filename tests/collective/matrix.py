# SPDX-License-Identifier: Apache-2.0
"""matrix.py TUTTI MATRIX TRANSPORT [DRIVER]: runs the matrix for many numbers of ranks,
by default choice and with each algorithm.

Full runs are sampled: each run draws one case in K, other cases each time, so that all fits in minutes; small runs take
more. TUTTI_TEST_QUICK=1: fewer numbers of ranks and cases, for sanitizers. TUTTI_TEST_FULL=1: all cases. Under an
emulator, which meson names in MESON_EXE_WRAPPER, the launcher and each rank are emulated processes,
and quick means three numbers of ranks.
"""
import os
import shlex
import subprocess
import sys
import time

EMULATOR = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))


# Ways of GPUs whose schedules are those of other rows: host memory has run these already.
TWINS = ("exchange", "copy", "bulk-copy", "peer-load", "chain", "copy-chain", "lines")


def choices(tutti):
    """[{collective: algorithm}]: each of `tutti schedule --list` is in one of them,
    as making processes takes longer than running them."""
    text = subprocess.run([*EMULATOR, tutti, "schedule", "--list"], check=True, capture_output=True, text=True).stdout
    rows = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    names = {row[0]: [name.strip() for name in row[1].split(",") if name.strip() not in TWINS] for row in rows}
    most = max(len(of) for of in names.values())
    return [{collective: of[i] for collective, of in names.items() if i < len(of)} for i in range(most)]


# The upper half of the ranks are another user's: as on two hosts, not all ranks share memory.
TWO_USERS = ["sh", "-c",
             '[ $TUTTI_RANK -ge $((TUTTI_SIZE / 2)) ] && exec setpriv --reuid 65534 "$0" "$@"; exec "$0" "$@"']


def can_be_another(program):
    """This process may run the program as another user."""
    try:
        return subprocess.run(["setpriv", "--reuid", "65534", "test", "-x", program],
                              capture_output=True).returncode == 0
    except OSError:
        return False


def run(tutti, matrix, transport, ranks, choice, arguments, before=(), settings=()):
    env = dict(os.environ, TUTTI_TRANSPORT=transport, TUTTI_TIMEOUT="60s", **dict(settings))
    env.pop("TUTTI_ALGO", None)
    if choice:
        env["TUTTI_ALGO"] = choice
    patience = "1800" if os.environ.get("TUTTI_TEST_FULL") == "1" else "240"
    command = [*EMULATOR, tutti, "run", "-n", str(ranks), "--timeout", patience,
               "--", *before, *EMULATOR, matrix, *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        shown = " ".join(f"{name}={value}" for name, value in dict(settings).items())
        print(f"FAILED ({done.returncode}): {shown} TUTTI_TRANSPORT={transport} TUTTI_ALGO={choice} "
              f"{' '.join(command)}")
        print(done.stdout[-3000:], done.stderr[-3000:])
    return done.returncode == 0


# Vectors of 1001 elements are then cut into slices, with each algorithm; by default only the longest are.
SLICED = {"TUTTI_SLICE": "4K"}
SLICED_RANKS = (4, 6)


# What ways of the GPU code a run is to take.
GPU_WAYS = {
    "by size": {"TUTTI_COPY_FROM": "16K", "TUTTI_CHAIN_FROM": "2K",
                "TUTTI_CHAIN_COPY_FROM": "1M", "TUTTI_CHAIN_PIECE": "64K"},
    "kernels alone": {"TUTTI_COPY_FROM": "0"},
    "lines": {"TUTTI_COPY_FROM": "0", "TUTTI_LINES_FROM": "1", "TUTTI_LINES_TO": "1T"},
    "reductions in lines": {"TUTTI_REDUCE_LINES_FROM": "0", "TUTTI_REDUCE_LINES_TO": "1T", "TUTTI_BULK_FROM": "1T"},
    "plain data": {"TUTTI_COPY_FROM": "0", "TUTTI_PLAIN_FROM": "1", "TUTTI_LINES_TO": "0"},
    "plain data, invited": {"TUTTI_COPY_FROM": "1T", "TUTTI_PLAIN_FROM": "1", "TUTTI_LINES_TO": "0",
                            "TUTTI_INVITE_FROM": "3K", "TUTTI_BULK_FROM": "1"},
    "copies of all": {"TUTTI_COPY_FROM": "1"},
    "pieces, and a driver that waits": {"TUTTI_COPY_FROM": "1", "TUTTI_COPY_STAGE": "16K", "TUTTI_EMULATED_BLOCK": "1"},
    "two blocks": {"TUTTI_BLOCKS": "2", "TUTTI_BULK_CHUNK": "4K",
                   "TUTTI_CHAIN_FROM": "1", "TUTTI_CHAIN_FAN": "0", "TUTTI_CHAIN_CHUNK": "2K"},
    "one hardware queue": {"TUTTI_EMULATED_CONNECTIONS": "1",
                           "TUTTI_COPY_FROM": "1", "TUTTI_COPY_STAGE": "16K", "TUTTI_CHAIN_FROM": "1T"},
    "gathered": {"TUTTI_GATHER_FROM": "1K", "TUTTI_COPY_FROM": "256"},
    "gathered, pieces, one hardware queue": {"TUTTI_GATHER_FROM": "1K",
                                             "TUTTI_COPY_FROM": "1", "TUTTI_COPY_STAGE": "16K",
                                             "TUTTI_EMULATED_CONNECTIONS": "1", "TUTTI_CHAIN_FROM": "1T"},
    "windows in host memory": {"TUTTI_P2P_DISABLE": "1", "TUTTI_PLAIN_FROM": "1K"},
    "no shared memory": {"TUTTI_SHM_DISABLE": "1"},
    "no shared memory, three threads": {"TUTTI_SHM_DISABLE": "1",
                                        "TUTTI_STAGE_THREADS": "3", "TUTTI_STAGE_SLICE": "64K"},
    "no shared memory, three threads, streams": {"TUTTI_SHM_DISABLE": "1", "TUTTI_STAGE_KERNEL": "0",
                                                 "TUTTI_STAGE_THREADS": "3", "TUTTI_STAGE_SLICE": "64K"},
}


# Of these alone there are runs of 1 and of 8 ranks, and in quick tests of 4.
GPU_FEW = ("by size", "no shared memory")


# All but the shortest vectors are cut between the GPUs of a host, and go in pieces.
ISLANDS_CUT = {"TUTTI_ISLANDS_FROM": "1", "TUTTI_ISLANDS_SCRATCH": "16K"}


LEVELS = "two-level"
STEPS = "allreduce,allgather,reduce,broadcast,reduce_scatter,alltoall,gather,scatter"
# Which host a rank takes itself to be on: one behind the other, in turn, uneven.
HOSTS = ("TUTTI_RANK * 2 / TUTTI_SIZE", "TUTTI_RANK % 2", "TUTTI_RANK * TUTTI_RANK % 3")


def gpu_main(tutti, matrix, driver):
    """One process a GPU, on the stand-in driver in the folder `driver`."""
    quick, full = os.environ.get("TUTTI_TEST_QUICK") == "1", os.environ.get("TUTTI_TEST_FULL") == "1"
    os.environ.update(TUTTI_TEST_GPU="1", TUTTI_COPY_PROCESSES="1", TUTTI_EMULATED_GPUS="8",
                      LD_LIBRARY_PATH=driver + ":" + os.environ.get("LD_LIBRARY_PATH", ""))
    failures, runs = 0, 0
    for ranks in [2, 4] if quick else [1, 2, 3, 4, 8]:
        for way, settings in GPU_WAYS.items():
            if (ranks in (1, 8) or (quick and ranks == 4)) and not full and way not in GPU_FEW:
                continue
            began = time.time()
            os.environ.update(settings)
            stride = 1 if full else (120 if quick else 36) * max(1, ranks // 2)
            failures += not run(tutti, matrix, "auto", ranks, None, ["-s", str(runs + 1), "-k", str(stride)])
            runs += 1
            for name in settings:
                del os.environ[name]
            print(f"gpu, {ranks} ranks, {way}: {time.time() - began:.1f} s", flush=True)
    islands = ((4, HOSTS[0]), (4, HOSTS[1]), (6, HOSTS[0]), (6, "TUTTI_RANK / 2"), (5, "TUTTI_RANK / 3"))
    for ranks, host in islands[: 1 if quick else None]:
        before = ["sh", "-c", f'TUTTI_HOSTID=$(({host})) exec "$0" "$@"']
        stride = 1 if full else 60 if quick else 30
        for settings in ({}, ISLANDS_CUT):
            failures += not run(tutti, matrix, "auto", ranks, None, ["-s", str(runs + 1), "-k", str(stride)], before,
                                settings)
            runs += 1
    if can_be_another(os.path.abspath(matrix)):
        for ranks in [2] if quick else [2, 3]:
            failures += not run(tutti, os.path.abspath(matrix), "auto", ranks, None, ["-k", "60"], TWO_USERS)
            runs += 1
    print(f"{runs} runs, {failures} failed")
    return failures != 0


def hosts_main(tutti, matrix):
    """Several hosts with several ranks each: schedules with levels, and all others by position."""
    quick, full = os.environ.get("TUTTI_TEST_QUICK") == "1", os.environ.get("TUTTI_TEST_FULL") == "1"
    failures, runs = 0, 0
    for ranks in [5] if quick else [3, 4, 5, 8] if full else [3, 5, 8]:
        for host in HOSTS:
            before = ["sh", "-c", f'TUTTI_HOSTID=$(({host})) exec "$0" "$@"']
            for choice, settings in ((None, {}), (LEVELS, SLICED), ("ring", SLICED))[: 3 if full else 2]:
                stride = 1 if full else (60 if quick else 30) * max(1, ranks // 4)
                which = ["-c", STEPS] if choice else []
                failures += not run(tutti, matrix, "auto", ranks, choice,
                                    ["-s", str(runs + 1), "-k", str(stride), *which], before, settings)
                runs += 1
    print(f"{runs} runs, {failures} failed")
    return failures != 0


# One segment under way on each lane, and all but the shortest vectors cut into several.
ONE = {"TUTTI_WINDOWS": "host=1", "TUTTI_EAGER": "256", "TUTTI_SEGMENT": "4K"}


def windows_main(tutti, matrix):
    """Lanes pause after each segment until the peer has it."""
    quick, full = os.environ.get("TUTTI_TEST_QUICK") == "1", os.environ.get("TUTTI_TEST_FULL") == "1"
    failures, runs = 0, 0
    for ranks in [2, 3] if quick else [2, 3, 5]:
        for choice in [{}, *choices(tutti)][: None if full else 2]:
            algorithms = ";".join(f"{collective}:{name}" for collective, name in choice.items())
            failures += not run(tutti, matrix, "tcp", ranks, algorithms,
                                ["-s", str(runs + 1), "-k", str(1 if full else 30)], settings=ONE)
            runs += 1
    print(f"{runs} runs, {failures} failed")
    return failures != 0


# On each link one packet in a hundred is lost, one is repeated, one comes late; it is sent again after 17 ms.
LOSSY = {"SOFTVERBS_FAULT": "drop=0.01,dup=0.01,reorder=0.01,seed=7", "TUTTI_IB_TIMEOUT": "12"}


def verbs_main(tutti, matrix):
    """RDMA carries what is longer than 256 bytes, on one lane, two and four, on good links and on bad ones;
    each rank looks whether it did."""
    quick, full = os.environ.get("TUTTI_TEST_QUICK") == "1", os.environ.get("TUTTI_TEST_FULL") == "1"
    failures, runs = 0, 0
    # Waiting for what was lost takes hours with all cases: on bad links there is one in eight of them.
    ways = [(lanes, links) for links in ({}, LOSSY) for lanes in ("1", "2", "4")][::2 if quick else 1]
    for lanes, links in ways:
        began, some = time.time(), lanes == "4" or links  # in each run: of other ranks, and by default choice alone
        for ranks in [2, 3, 5] if full else [3] if some else [2, 3] if quick else [2, 3, 5]:
            for choice in [{}, *choices(tutti)][: None if full else 1 if some else 2]:
                algorithms = ";".join(f"{collective}:{name}" for collective, name in choice.items())
                stride = (8 if links else 1) if full else (32 if quick else 16) * (3 if choice else 1)
                settings = {"TUTTI_EAGER": "256", "TUTTI_SEGMENT": "4K", "TUTTI_IB_LANES": lanes, **links}
                failures += not run(tutti, matrix, "verbs", ranks, algorithms,
                                    ["-v", "-s", str(runs + 1), "-k", str(stride)], settings=settings)
                runs += 1
        print(f"{lanes} lanes, {'bad' if links else 'good'} links: {time.time() - began:.1f} s", flush=True)
    failures += not run(tutti, matrix, "verbs", 3, None, ["-v", "-k", "40"], settings={"TUTTI_IB_LANES": "2", **ONE})
    print(f"{runs + 1} runs, {failures} failed")
    return failures != 0


def main():
    tutti, matrix, transport = sys.argv[1:4]
    if transport == "verbs":
        return verbs_main(tutti, matrix)
    if transport == "windows":
        return windows_main(tutti, matrix)
    if transport == "hosts":
        return hosts_main(tutti, matrix)
    if transport == "gpu":
        return gpu_main(tutti, matrix, sys.argv[4])
    quick, full = os.environ.get("TUTTI_TEST_QUICK") == "1", os.environ.get("TUTTI_TEST_FULL") == "1"
    failures, runs, seed = 0, 0, 0
    for ranks in ([2, 3, 5] if quick and EMULATOR else [2, 5] if quick else
                  [1, 2, 3, 4, 5, 6, 7, 8, 9, 16] if full else [1, 2, 3, 4, 5, 8, 9, 16]):
        stride = 1 if full else (40 if quick else 12) * (1 if ranks < 5 else 2 if ranks < 10 else 6)
        began = time.time()
        for choice in [{}, *choices(tutti)]:
            seed += 1
            arguments = ["-s", str(seed), "-k", str(stride)]
            if choice:
                jobs = ",".join(choice).replace("-", "_")
                arguments = ["-s", str(seed), "-k", str(stride if full else stride * 3), "-c", jobs]
            algorithms = ";".join(f"{collective}:{name}" for collective, name in choice.items())
            for settings in [{}, SLICED] if choice and ranks in SLICED_RANKS else [{}]:
                failures += not run(tutti, matrix, transport, ranks, algorithms, arguments, settings=settings)
                runs += 1
        print(f"{transport}, {ranks} ranks: {time.time() - began:.1f} s", flush=True)
        if failures > 5:
            break
    print(f"{runs} runs, {failures} failed")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
