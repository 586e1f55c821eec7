# SPDX-License-Identifier: Apache-2.0
"""Processes that are started anew beside the store of those before, as torchrun does:
what their first lives left there must not mislead them."""
import os
import signal
import sys
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

from tutti.torch.group import TuttiGroup

RANKS, DEADLINE = 3, 60


def life(port, rank, number):
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=DEADLINE))
    if number == 0 and rank == 2:
        return  # it ends before it comes
    # PyTorch 1 itself cannot make its default group twice in one store
    group = TuttiGroup(dist.PrefixStore("default", store), rank, RANKS, timedelta(seconds=DEADLINE))
    ones = torch.ones(100)
    group.allreduce([ones], dist.AllreduceOptions()).wait()
    assert ones[0] == RANKS
    if rank == 0:
        group.send([torch.full((3,), float(number))], 1, 0).wait()
    if rank == 1:
        got = torch.empty(3)
        group.recv([got], 0, 0).wait()
        assert got[0] == number
    group.monitored_barrier()
    if rank < 2:
        TuttiGroup(dist.PrefixStore("pair", store), rank, 2,
                   timedelta(seconds=DEADLINE)).barrier(dist.BarrierOptions()).wait()
    print("came through", flush=True)
    if number < 2:
        signal.pause()


def start(port, rank, number):
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.close(ours)
        os.dup2(theirs, 1)
        try:
            life(port, rank, number)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        sys.stdout.flush()
        os._exit(0)
    os.close(theirs)
    return child, open(ours, encoding="utf-8")


def keep_store():
    """A store in a process of its own: its thread may hold locks of the C library, which a fork would copy."""
    ours, theirs = os.pipe()
    keeper = os.fork()
    if not keeper:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        os.write(theirs, str(store.port).encode())
        signal.pause()
    os.close(theirs)
    port = int(os.read(ours, 16))
    os.close(ours)
    return keeper, port


def live(port, number):
    order = range(RANKS) if number % 2 else reversed(range(RANKS))  # whoever comes before rank 0 finds its old word
    ranks = [start(port, rank, number) for rank in order]
    if number == 0:
        os.waitpid(ranks.pop(0)[0], 0)
    else:
        words = [words.readline().strip() for _, words in ranks]
        if words != ["came through"] * RANKS:
            sys.exit(f"life {number}: {words}")
    for child, words in ranks:
        if number < 2:
            os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        words.close()
        if status != (-signal.SIGKILL if number < 2 else 0):
            sys.exit(f"life {number}: status {status}")


def main():
    keeper, port = keep_store()
    try:
        for number in range(4):
            live(port, number)
    finally:
        os.kill(keeper, signal.SIGKILL)


main()
