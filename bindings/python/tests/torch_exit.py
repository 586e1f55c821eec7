# SPDX-License-Identifier: Apache-2.0
"""Programs that end while operations run: no signal, and what all ranks have called is carried out. And groups that are
destroyed leave no threads behind. The ranks are copies of this process, which has imported PyTorch, and end as Python
does.
"""
import os
import sys
import threading
import time

import torch
import torch.distributed as dist

from torch_ranks import hold_port, name_rank
import tutti.torch  # noqa: F401

TURNS = 3
CYCLES = 5


def end(how):
    """One rank of a program that does not wait."""
    dist.init_process_group("tutti")
    parts = [torch.ones(8_000_000) for _ in range(6)]
    dist.barrier()
    if how == "all" or dist.get_rank() == 0:
        for part in parts:
            dist.all_reduce(part, async_op=True)
    elif how == "one":
        time.sleep(3)  # the other one gives up meanwhile


def cycles():
    """Groups with messages, one after another."""
    dist.init_process_group("tutti")
    rank = dist.get_rank()
    counts = []
    for _ in range(CYCLES):
        group = dist.new_group()
        got = torch.zeros(3)
        later = dist.irecv(got, 1 - rank, group=group)
        dist.send(torch.full((3,), rank + 1.0), 1 - rank, group=group)
        later.wait()
        assert got.tolist() == [2.0 - rank] * 3, got
        dist.destroy_process_group(group)
        until = time.monotonic() + 5
        while threading.active_count() > min(counts, default=99) and time.monotonic() < until:
            time.sleep(0.01)
        counts.append(threading.active_count())
    assert counts[-1] <= counts[0], f"threads after each group: {counts}"
    dist.destroy_process_group()


def main():
    for how in ("all",) * TURNS + ("one", "cycles"):
        (held, port), ranks = hold_port(), {}
        for rank in range(2):
            process = os.fork()
            if not process:
                name_rank(rank, 2, port)
                return cycles() if how == "cycles" else end(how)
            ranks[process] = rank
        while ranks:
            process, status = os.wait()
            rank = ranks.pop(process)
            if status:
                sys.exit(f"{how}: rank {rank} ended with {os.waitstatus_to_exitcode(status)}")
        held.close()


main()
