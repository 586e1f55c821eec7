# SPDX-License-Identifier: Apache-2.0
"""gpu_joining_test.py PROGRAM LIBRARIES: a rank is killed while all make a communicator whose memory goes by
descriptors, a little later each time: the times are spread over what a run takes. The others end, each in time."""
import os
import secrets
import subprocess
import sys
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks"))
from held_port import hold_port  # noqa: E402

RANKS, PATIENCE = 3, 25  # seconds: less than a descriptor is waited for
ROUNDS = 10 if os.environ.get("TUTTI_TEST_QUICK") else 30


def attempt(program, environment, delay=None):
    """Whether all have ended; without a delay nobody is killed."""
    held, port = hold_port()
    nonce = secrets.token_hex(16)
    with held:
        ranks = [subprocess.Popen([program, "everyone"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  env=dict(environment, TUTTI_RANK=str(rank), TUTTI_LOCAL_RANK=str(rank),
                                           TUTTI_ID=f"127.0.0.1:{port}", TUTTI_NONCE=nonce)) for rank in range(RANKS)]
        if delay is not None:
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
                       TUTTI_EMULATED_IPC="0", TUTTI_INIT_TIMEOUT="4s", TUTTI_DEBUG="none")
    begin = time.monotonic()
    if not attempt(program, environment):
        sys.exit(f"nobody was killed, and some rank did not end in {PATIENCE} s")
    whole = time.monotonic() - begin
    for turn in range(ROUNDS):
        delay = whole * (turn + 0.5) / ROUNDS
        if not attempt(program, environment, delay):
            sys.exit(f"killed after {1000 * delay:.0f} ms: some rank did not end in {PATIENCE} s")
    print(f"{ROUNDS} ranks killed within {1000 * whole:.0f} ms")


if __name__ == "__main__":
    main()
