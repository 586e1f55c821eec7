# SPDX-License-Identifier: Apache-2.0
"""Ranks of torch.distributed that are copies of one process, which has imported PyTorch already; and what they say
together of a feature."""
import ctypes
import os
import signal
import sys
import traceback
from datetime import timedelta

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "benchmarks"))
from held_port import hold_port  # noqa: E402

PR_SET_PDEATHSIG = 1
LIMIT = timedelta(seconds=30)


class Absent(Exception):
    """This PyTorch has not got it."""


class Outside(Exception):
    """This rank has no part in it."""


def has(thing, name):
    if not hasattr(thing, name):
        raise Absent
    return getattr(thing, name)


def name_rank(rank, n, port):
    """In the copy, which ends with its parent."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for name, value in (("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", n), ("LOCAL_WORLD_SIZE", n),
                        ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", port)):
        os.environ[name] = str(value)


def rank_process(rank, n, port, work):
    """In the copy. Never returns, nor ends as Python does: a group that failed may have nobody to end with."""
    name_rank(rank, n, port)
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def run(n, work):
    """Lets n ranks do the work; 1: one has failed, and the others were ended."""
    (held, port), ranks, failed = hold_port(), {}, 0
    for rank in range(n):
        process = os.fork()
        if process == 0:
            rank_process(rank, n, port, work)
        ranks[process] = rank
    while ranks:
        process, status = os.wait()
        rank = ranks.pop(process)
        if status and not failed:
            print(f"rank {rank} ended with status {status}", file=sys.stderr)
            for other in ranks:
                os.kill(other, signal.SIGKILL)
        failed |= status != 0
    held.close()
    return int(failed)


def outcome(feature, rank, n):
    try:
        feature(rank, n)
    except Absent:
        return "-"
    except Outside:
        return ""
    except Exception as error:
        sentence = " ".join(str(error).split("\n")[0].split())
        plain = isinstance(error, (NotImplementedError, TypeError)) or "does not " in sentence or "not safe" in sentence
        return f"{'refused' if plain else 'FAIL'}: {type(error).__name__}: {sentence}"[:300]
    return "ok"


def joined(store, name, mine, rank, n):
    """What the ranks say together: the worst of it. By the store, which works when the group does not."""
    store.set(f"{name}/{rank}", mine)
    store.wait([f"{name}/{r}" for r in range(n)], LIMIT)
    said = [text for r in range(n) if (text := store.get(f"{name}/{r}").decode())]
    order = sorted(said, key=lambda one: ("FAIL" not in one, "refused" not in one, one))
    if len({one.split(":")[0] for one in said}) > 1 and "FAIL" not in order[0]:
        return "FAIL: ranks differ: " + " | ".join(said)
    return order[0]
