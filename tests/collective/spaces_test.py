#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that see each other's pids, memory, users and mounts differently, as containers do: right results,
or a sentence that says why not.
Usage: spaces_test.py REGIONS"""
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks"))
from held_port import hold_port  # noqa: E402

REGIONS = sys.argv[1]
PATIENCE = 120
PID = ["unshare", "--pid", "--fork", "--mount-proc"]
SHM = ["sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"]  # a private one
USER = ["unshare", "--user", "--map-root-user"]
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
SHARED = {"TUTTI_TRANSPORT": "shm"}
TCP = {"TUTTI_TRANSPORT": "tcp"}
ATTACH = {"TUTTI_SHARED_ATTACH": "64K"}
NO_ATTACH = {"TUTTI_SHM_CMA": "0"}

# Name: what comes before the program for each rank, what comes after, settings, and what is said if they cannot meet.
CASES = {
    "pid": ([PID, PID], [[], []], {}, None),
    "pid, by attach": ([PID, PID], [[], []], ATTACH, None),
    "pid, without attach": ([PID, PID], [[], []], NO_ATTACH, None),
    "pid of one, by attach": ([PID, []], [[], []], ATTACH, None),
    "parent and child pids, by attach": ([[], PID], [[], []], ATTACH, None),
    "pid and mount": ([PID + ["--mount"], PID + ["--mount"]], [[], []], ATTACH, None),
    "ipc": ([PID + ["--ipc"], PID + ["--ipc"]], [[], []], {}, None),
    "uts": ([PID + ["--uts"], PID + ["--uts"]], [[], []], {}, None),
    "private /dev/shm": ([PID + ["--mount"] + SHM, PID + ["--mount"] + SHM], [[], []], ATTACH, None),
    "network of both": ([["NET"] + PID, ["NET"] + PID], [[], []], ATTACH, None),
    "user namespace": ([USER, []], [[], []], {}, None),
    "user namespaces": ([[*USER, *PID[1:]]] * 2, [[], []], {**ATTACH, **SHARED}, None),
    "namespaces of two users": ([USER, NOBODY + USER], [[], []], {}, None),
    "namespaces of two users, shm asked for": ([USER, NOBODY + USER], [[], []], SHARED, "cannot be reached"),
    "users": ([[], []], [[], ["uid", "65534"]], {}, None),
    "users and pid": ([PID, PID], [["uid", "1"], ["uid", "65534"]], ATTACH, None),
    "undumpable": ([[], []], [["uid", "65534", "undumpable"]] * 2, ATTACH, None),
    "tcp": ([PID, PID], [[], []], TCP, None),
}


def can(before):
    try:
        return subprocess.run([*before, "test", "-x", REGIONS], stderr=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:
        return False


def start(before, after, settings, rank, port, job):
    env = {**os.environ, **settings, "WORLD_SIZE": "2", "RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
           "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": job, "TUTTI_TIMEOUT": "60s", "TUTTI_INIT_TIMEOUT": "40s"}
    return subprocess.Popen([*before, REGIONS, *after], env=env, stderr=subprocess.PIPE, text=True)


def outcome(ranks):
    """Exit codes, and what was said; None: it hangs."""
    try:
        said = [one.communicate(timeout=PATIENCE)[1] for one in ranks]
    except subprocess.TimeoutExpired:
        return None
    finally:
        for one in ranks:
            one.kill()
    return [one.returncode for one in ranks], said


def judge(name, before, after, settings, sentence):
    """What is wrong, "" if nothing; None if this cannot be had here."""
    net = None
    if before[0][:1] == ["NET"]:
        net = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep 300"],
                               stdout=subprocess.PIPE, text=True)
        net.stdout.readline()
        before = [["nsenter", "--net", "--target", str(net.pid), *one[1:]] for one in before]
    try:
        if not all(can(one) for one in before) or (os.getuid() and any("uid" in one for one in after)):
            return None
        held, port = hold_port()
        with held:
            job = os.urandom(8).hex()
            ended = outcome([start(before[rank], after[rank], settings, rank, port, job) for rank in range(2)])
        if not ended:
            return f"{name}: it hangs"
    finally:
        if net:
            net.kill()
            net.wait()
    codes, said = ended
    good = all(codes) and all(sentence in text for text in said) if sentence else codes == [0, 0]
    return "" if good else f"{name}: ended with {codes}: {said}"


def main():
    if not shutil.which("unshare") or not can(PID):
        print("no namespaces here: unshare --pid needs to be allowed (run as root)")
        return 77
    failures = []
    quick = os.environ.get("TUTTI_TEST_QUICK")
    cases = list(CASES.items())[:: 3 if quick else 1]
    with ThreadPoolExecutor(6) as pool:  # they mostly wait
        said = list(pool.map(lambda case: judge(case[0], *case[1]), cases))
    for (name, _), wrong in zip(cases, said):
        if wrong is None:
            print(f"{name}: not to be had here")
        elif wrong:
            failures.append(wrong)
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
