#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who asks for RDMA and cannot have it is told why, and gets nothing else in its place.
Usage: verbs_test.py TUTTI PROGRAM"""
import ctypes.util
import os
import subprocess
import sys

ABSENT = "/nonexistent/libibverbs.so.1"
CASES = (  # settings, what is said; None: all is well
    ({"TUTTI_TRANSPORT": "verbs", "TUTTI_IBVERBS_LIBRARY": ABSENT}, "cannot load libibverbs: " + ABSENT),
    ({"TUTTI_TRANSPORT": "verbs", "TUTTI_IBVERBS_LIBRARY": "libc.so.6"}, "lacks ibv_get_device_list"),
    ({"TUTTI_TRANSPORT": "verbs", "NCCL_IB_DISABLE": "1"}, "RDMA is switched off (NCCL_IB_DISABLE)"),
    ({"TUTTI_TRANSPORT": "auto", "TUTTI_IBVERBS_LIBRARY": ABSENT, "NCCL_IB_HCA": "mlx5"}, None),
)


def judge(tutti, program, settings, sentence):
    """What is wrong; "" if nothing is."""
    done = subprocess.run([tutti, "run", "-n", "2", "--timeout", "60", "--", program], env={**os.environ, **settings},
                          capture_output=True, text=True)
    if (done.returncode == 0) != (sentence is None):
        return f"{settings}: exit status {done.returncode}: {done.stderr[-1000:]}"
    if sentence and sentence not in done.stderr:
        return f"{settings}: it does not say \"{sentence}\": {done.stderr[-1000:]}"
    return ""


def main():
    cases = CASES
    if ctypes.util.find_library("ibverbs") and not os.path.exists("/sys/class/infiniband_verbs"):
        cases += (({"TUTTI_TRANSPORT": "verbs", "TUTTI_IBVERBS_LIBRARY": "libibverbs.so.1"}, "no RDMA device here"),)
    wrong = [what for case in cases if (what := judge(*sys.argv[1:3], *case))]
    print("\n".join(wrong) or "all said")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
