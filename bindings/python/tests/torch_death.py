# SPDX-License-Identifier: Apache-2.0
"""The last rank ends in the middle, without a word: what the others' calls raise, within the time,
and that they live on."""
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tutti.torch  # noqa: F401


def main():
    dist.init_process_group("tutti", timeout=timedelta(seconds=20))
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    if rank == last:
        for other in range(last):
            dist.send(torch.ones(3), other)
        dist.barrier()
        time.sleep(1)
        os._exit(0)
    dist.recv(torch.ones(3), last)
    dist.barrier()
    start = time.time()
    failed = 0
    for call in (lambda: model(torch.ones(2, 4)).sum().backward(),  # C++ asks the futures, not Python
                 lambda: [dist.all_reduce(torch.ones(1000)) for _ in range(1000)],
                 lambda: dist.all_reduce(torch.ones(10), async_op=True).get_future().wait(),
                 lambda: dist.recv(torch.ones(3), last)):
        try:
            call()
        except RuntimeError as error:
            failed += 1
            if failed in (1, 4) and f"rank {last}" not in str(error):
                sys.exit(f"the error does not name the dead rank: {error}")
    if failed != 4 or time.time() - start > 60:
        sys.exit(f"{failed} of 4 calls failed, in {time.time() - start:.0f} s")
    print(f"rank {rank} lives")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
