# SPDX-License-Identifier: Apache-2.0
"""In place of PyTorch's suite: what a test's name says happens, over tutti (LD_PRELOAD is set) or over any library."""
import os
import sys
import time

NAMES = ("test_good", "test_bad", "test_bad_here", "test_skipped", "test_slow_here", "test_shy", "test_port")


def run_one(name):
    here = "LD_PRELOAD" in os.environ
    once = os.path.join(os.environ["SUITE_ONCE"], "tutti" if here else "nccl")
    print("a forked run" if FORKED else "a program")
    if name == "test_slow_here" and here:
        time.sleep(60)
    first = name == "test_shy" and not os.path.exists(once)  # fails at the first try
    if first:
        open(once, "w").close()
    port = os.path.join(os.environ["SUITE_ONCE"], "port")
    taken = name == "test_port" and os.path.exists(port)
    if name == "test_port" and not taken:
        open(port, "w").close()
        time.sleep(0.5)
        os.remove(port)
    bad = first or taken or name == "test_bad" or name == "test_bad_here" and here
    print("FAILED (errors=1)" if bad else "OK (skipped=1)" if name == "test_skipped" else "OK")
    return int(bad)


FORKED = sys.argv[1:] == ["--fork"]
if sys.argv[1:] == ["--list"]:
    print("\n".join(NAMES))
elif FORKED:
    sys.path.insert(0, os.environ["SUITE_PARTS"])
    from gpu_tests import forked_runs
    if os.environ.get("SUITE_UNFIT"):
        sys.exit("not fit to be forked")
    print("loaded")
    forked_runs.serve(run_one)
else:
    sys.exit(run_one(sys.argv[1]))
