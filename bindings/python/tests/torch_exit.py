# SPDX-License-Identifier: Apache-2.0
"""Programs that end while operations run: no signal, and what all ranks have called is carried out. And groups that are
destroyed leave no threads behind.

torch_exit.py TUTTI
"""
import subprocess
import sys
import threading
import time

TURNS = 3
CYCLES = 5


def end(how):
    """One rank of a program that does not wait."""
    import torch
    import torch.distributed as dist

    import tutti.torch  # noqa: F401

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
    import torch
    import torch.distributed as dist

    import tutti.torch  # noqa: F401

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
    if sys.argv[1] == "cycles":
        cycles()
        return
    if sys.argv[1] in ("all", "one"):
        end(sys.argv[1])
        return
    for how in ("all",) * TURNS + ("one", "cycles"):
        told = subprocess.run([sys.argv[1], "run", "-n", "2", "--", sys.executable, __file__, how], capture_output=True,
                              text=True, timeout=120)
        if told.returncode:
            sys.exit(f"{how}: status {told.returncode}\n{told.stdout}{told.stderr}")


main()
