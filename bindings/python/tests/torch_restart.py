# SPDX-License-Identifier: Apache-2.0
"""Processes that are started anew beside the store of those before, as torchrun does: what their first lives left there must not mislead them."""
import os
import signal
import sys
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

import tutti.torch  # noqa: F401

RANKS, DEADLINE = 3, 60


def life(port, rank, number):
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=DEADLINE))
    if number == 0 and rank == 2:
        return  # it ends before it comes
    dist.init_process_group("tutti", store=store, rank=rank, world_size=RANKS, timeout=timedelta(seconds=DEADLINE))
    ones = torch.ones(100)
    dist.all_reduce(ones)
    assert ones[0] == RANKS
    if rank == 0:
        dist.send(torch.full((3,), float(number)), 1)
    if rank == 1:
        got = torch.empty(3)
        dist.recv(got, 0)
        assert got[0] == number
    dist.monitored_barrier()
    pair = dist.new_group([0, 1])
    if rank < 2:
        dist.barrier(group=pair)
    print("came through", flush=True)
    if number < 2:
        signal.pause()
    dist.destroy_process_group()


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


def main():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    for number in range(4):
        order = range(RANKS) if number % 2 else reversed(range(RANKS))  # whoever comes before rank 0 finds its old word
        ranks = [start(store.port, rank, number) for rank in order]
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


main()
