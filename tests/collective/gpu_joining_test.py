# SPDX-License-Identifier: Apache-2.0
"""gpu_joining_test.py PROGRAM LIBRARIES: a rank is killed while all make a communicator whose memory goes by
descriptors, a little later each time. The others end, each in time."""
import os
import secrets
import subprocess
import sys
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks"))
from held_port import hold_port  # noqa: E402

RANKS, ROUNDS, PATIENCE = 3, 30, 25  # seconds: less than a descriptor is waited for


def attempt(program, environment, delay):
    """Whether all have ended."""
    held, port = hold_port()
    nonce = secrets.token_hex(16)
    with held:
        ranks = [subprocess.Popen([program, "everyone"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  env=dict(environment, TUTTI_RANK=str(rank), TUTTI_LOCAL_RANK=str(rank),
                                           TUTTI_ID=f"127.0.0.1:{port}", TUTTI_NONCE=nonce)) for rank in range(RANKS)]
        time.sleep(delay)
        ranks[1].kill()
        end, ended = time.monotonic() + PATIENCE, True
        for rank in ranks:
            try:
                rank.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                ended = False
                rank.kill()
                rank.wait()
    return ended


def main():
    program, libraries = sys.argv[1:]
    environment = dict(os.environ, LD_LIBRARY_PATH=libraries, TUTTI_SIZE=str(RANKS), TUTTI_LOCAL_SIZE=str(RANKS),
                       TUTTI_EMULATED_IPC="0", TUTTI_INIT_TIMEOUT="10s", TUTTI_DEBUG="none")
    for turn in range(ROUNDS):
        delay = 0.01 + 0.003 * turn
        if not attempt(program, environment, delay):
            sys.exit(f"killed after {1000 * delay:.0f} ms: some rank did not end in {PATIENCE} s")
    print(f"{ROUNDS} ranks killed")


if __name__ == "__main__":
    main()
