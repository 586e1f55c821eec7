#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether tutti does on the GPUs of one host what it promises, part by part. How fast it is: benchmarks/gpu.py.

  run.py check     all of nccl-tests with checks, in one thread, in threads, in processes (MPI), in graphs
  run.py apps      PyTorch, CuPy and JAX with tutti by LD_PRELOAD
  run.py nopeer    two GPUs through host memory and through sockets
  run.py hosts     ranks that are hosts of their own and share a GPU: tutti's own tests, on one GPU or more
  run.py plugin    unmodified NCCL over tutti's network plugin, also while lanes are cut
  run.py suite     PyTorch's suite for back ends, and accelerate's scripts, over both
  run.py kill      a rank is killed, the others must go on
  run.py sanitize  all kernels under compute-sanitizer
  run.py all       all of these but hosts, plugin and suite, quickly, one after another, in 340 seconds

Each part stands alone, ends at its --budget of seconds, and writes FOLDER/results.json after every step (--results
FOLDER), where `benchmarks/gpu.py report` finds it. Options of a part: run.py PART --help. Exit status: 0 all went well,
1 something failed, 2 wrong arguments. Multicast (NVLS) is off throughout.
"""
import sys

from gpu_tests import apps, check, hosts, kill, nopeer, plugin, sanitize, suite
from gpu_parts import command  # gpu_tests says where it is
from gpu_parts.command import Part

# `plugin` and `suite` take as long each as all the others; `hosts` needs a build with tests.
PARTS = {"kill": Part(kill, 150, 140, 10), "nopeer": Part(nopeer, 180, 60, 28), "apps": Part(apps, 300, 120, 130),
         "hosts": Part(hosts, 200, 70, 0, False), "suite": Part(suite, 500, 150, 0, False),
         "plugin": Part(plugin, 200, 60, 0, False), "sanitize": Part(sanitize, 300, 120, 20),
         "check": Part(check, 300, 90, 205)}


def main(arguments=None):
    return command.main(PARTS, __doc__, 340, arguments)


if __name__ == "__main__":
    sys.exit(main())
