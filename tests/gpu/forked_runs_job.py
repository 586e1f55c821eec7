# SPDX-License-Identifier: Apache-2.0
"""The process that forked_runs_test.py has runs forked from. A run's name says what it does."""
import os
import signal
import subprocess
import sys
import time

from gpu_tests import forked_runs


def run_one(name):
    print(name, os.environ["COLOUR"], flush=True)
    if name == "raises":
        raise ValueError("no such thing")
    if name == "exits":
        sys.exit("a sentence")
    if name == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "hangs":
        with subprocess.Popen(["sleep", "600"], start_new_session=True) as below:
            print(below.pid, flush=True)
    if name == "orphans":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
    return 7 if name == "seven" else 0


forked_runs.serve(run_one)
