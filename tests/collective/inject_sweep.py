# SPDX-License-Identifier: Apache-2.0
"""inject_sweep.py PROGRAM LIBRARY TRANSPORT STRIDE [BEFORE...]: fails the N-th call of each function in rank 0,
for N = 1, 1 + STRIDE, ...

Every rank must end with a right result (0) or a clean error (10), and none may hang or crash. Test programs end the
sweep of a function when nothing was fired any more. Where no rank can have a memfd, files serve; where one cannot, TCP:
all results are right.
"""
import os
import secrets
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks"))
from held_port import hold_port  # noqa: E402

FUNCTIONS = ["malloc", "calloc", "realloc", "socket", "connect", "accept4", "send", "sendmsg", "recv", "recvmsg",
             "mmap", "memfd_create", "epoll_ctl", "eventfd"]
EMULATOR = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))  # of a build for another processor


def trial(program, library, transport, ranks, specification, victims):
    """Exit statuses of the ranks, and whether the failure was fired."""
    held, port = hold_port()
    address, nonce = f"127.0.0.1:{port}", secrets.token_hex(16)
    with held, tempfile.TemporaryDirectory() as folder:
        report, children = os.path.join(folder, "report"), []
        for rank in range(ranks):
            env = dict(os.environ, TUTTI_RANK=str(rank), TUTTI_SIZE=str(ranks), TUTTI_LOCAL_RANK=str(rank),
                       TUTTI_LOCAL_SIZE=str(ranks), TUTTI_ID=address, TUTTI_NONCE=nonce, TUTTI_TRANSPORT=transport,
                       TUTTI_TIMEOUT="2s", TUTTI_INIT_TIMEOUT="4s", TUTTI_DEBUG="none")
            if rank in victims:
                env.update(LD_PRELOAD=library, TUTTI_INJECT=specification, TUTTI_INJECT_REPORT=report)
            children.append(subprocess.Popen([*EMULATOR, program], env=env, stdout=subprocess.DEVNULL,
                                             stderr=subprocess.PIPE))
        said = [child.communicate()[1].decode(errors="replace")[-1500:] for child in children]
        fired = os.path.exists(report) and "fired=0" not in open(report, encoding="utf-8").read()
    return [child.returncode for child in children], fired, said


def main():
    program, library, transport = sys.argv[1:4]
    stride = int(sys.argv[4])
    library = " ".join([*sys.argv[5:], library])  # a sanitizer's library comes first
    trials, bad = 0, 0
    for function in FUNCTIONS:
        n, silent = 1, 0
        while silent < 2 and n < 4000 and bad < 10:
            ranks, victim = 2 + n % 2, n // 2 % 2
            codes, fired, said = trial(program, library, transport, ranks, f"{function}:{n}", [victim])
            trials += 1
            silent = 0 if fired else silent + 1
            if any(code not in (0, 10) for code in codes):
                bad += 1
                print(f"FAILED {transport} {function}:{n} in rank {victim} of {ranks}: exit codes {codes}", *said,
                      sep="\n  ", flush=True)
            n += stride if n < 40 else stride * 7
    codes, fired, said = trial(program, library, transport, 3, "memfd_create:1+", range(3))
    trials += 1
    if any(codes):
        bad += 1
        print(f"FAILED {transport} where no memfd is to be had: exit codes {codes}", *said, sep="\n  ")
    codes, fired, said = trial(program, library, "auto", 3, "memfd_create:1+", [1])
    trials += 1
    if any(codes):
        bad += 1
        print(f"FAILED where one rank of three has no memfd, and TCP is there: exit codes {codes}", *said, sep="\n  ")
    print(f"{transport}: {trials} trials, {bad} bad")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
