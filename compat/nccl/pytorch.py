# SPDX-License-Identifier: Apache-2.0
"""pytorch.py LIBRARY: the newest PyTorch that `make torch-versions` has fetched, with this library in the place of
NVIDIA's: all that its CUDA library needs is bound at once, a call goes through it, and its engine "nccl2" asks for what
is missing here, a GPU. Exit status 77: there is none that was built for CUDA."""
import glob
import os
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build-torch-newest")
PROGRAM = """
import torch
import torch.distributed as dist
from torch.cuda import nccl
print(torch.__version__, len(nccl.unique_id()))
try:
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
except (RuntimeError, ValueError) as error:
    print(error)
"""


def main():
    if not glob.glob(os.path.join(ROOT, "lib", "python3*", "site-packages", "torch", "lib", "libtorch_cuda.so")):
        print("SKIPPED: no PyTorch for CUDA here: make torch-versions fetches it")
        return 77
    environment = {**os.environ, "LD_PRELOAD": sys.argv[1], "LD_BIND_NOW": "1", "NCCL_DEBUG": "INFO",
                   "CUDA_VISIBLE_DEVICES": ""}
    told = subprocess.run([os.path.join(ROOT, "bin", "python"), "-c", PROGRAM], capture_output=True, text=True,
                          timeout=200, env=environment)
    print(told.stdout, told.stderr)
    said = told.stdout.splitlines()
    by_us = any(line.startswith("tutti ") for line in told.stderr.splitlines())
    right = told.returncode == 0 and by_us and len(said) == 2 and said[0].endswith(" 128")
    return 0 if right and ("at least one CUDA device" in said[1] or "no GPUs found" in said[1]) else 1


if __name__ == "__main__":
    sys.exit(main())
