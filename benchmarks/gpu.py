#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tutti is measured by on the GPUs of one host, part by part, compared with NCCL in turns on the same machine.
Whether all goes right there is for tests/gpu/run.py.

  gpu.py speed     all calls, as they are and in CUDA graphs, medians of rounds
  gpu.py first     time and device memory of communicators
  gpu.py layers    a decoder's all-reduces over NCCL, its windows, PyTorch's symmetric memory, and tutti
  gpu.py pipeline  a step of a pipeline whose messages go beside its products
  gpu.py beside    what communication costs a matrix product beside it
  gpu.py late      what calls cost when the host of one rank comes late
  gpu.py groups    what a group of many small calls takes
  gpu.py dynamic   a dispatch of tokens to experts by lengths that only GPUs know, and padded
  gpu.py between   allreduces between hosts (--hosts 2), called and in graphs, and what processors do for them
  gpu.py limits    what the machine can do without any library
  gpu.py report    the table of aims, from what the parts, and those of tests/gpu/run.py, have left
  gpu.py all       all of these, quickly, one after another, in 250 seconds

Each part stands alone, ends at its --budget of seconds, and writes FOLDER/results.json after every step (--results
FOLDER). Options of a part: gpu.py PART --help. Exit status: 0 all went well, 1 something failed, 2 wrong arguments.
Multicast (NVLS) is off throughout.
"""
import sys

from gpu_parts import (beside, between, command, comm_setup, dynamic, groups, late_rank, layers, limits, pipeline,
                       report, speed)
from gpu_parts.command import Part

PARTS = {"first": Part(comm_setup, 180, 60, 15), "beside": Part(beside, 300, 120, 66),
         "late": Part(late_rank, 120, 60, 26), "groups": Part(groups, 90, 40, 16), "layers": Part(layers, 240, 110, 22),
         "dynamic": Part(dynamic, 150, 120, 40, False), "between": Part(between, 240, 90, 0, False),
         "pipeline": Part(pipeline, 240, 60, 34), "limits": Part(limits, 90, 80, 20), "speed": Part(speed, 540, 90, 72),
         "report": Part(report, 0, 0, 0)}


def main(arguments=None):
    return command.main(PARTS, __doc__, 250, arguments)


if __name__ == "__main__":
    sys.exit(main())
