#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what a program of nccl-tests prints, with made-up figures: for the tests of benchmarks/gpu.py.
FAKE=wrong|fail|hang|garbage misbehaves; lanes has a TCP connection, and waits in long runs until that is cut."""
import os
import socket
import sys
import time

UNITS = {"K": 10, "M": 20, "G": 30}


def value(text):
    return int(text[:-1]) << UNITS[text[-1]] if text[-1] in UNITS else int(text)


def lane():
    """True: it has carried much, and was then cut from outside."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    block, got = bytes(1 << 16), 0
    with near, far:
        far.settimeout(60)
        try:
            while got < 8 << 20:
                near.sendall(block)
                got += len(far.recv(1 << 16, socket.MSG_WAITALL))
            return far.recv(1) == b""
        except BrokenPipeError:  # it is cut as soon as it has carried enough
            return True


def main():
    words = sys.argv[1:]
    first, last, factor = (value(words[words.index(name) + 1]) for name in ("-b", "-e", "-f"))
    mode, fast = os.environ.get("FAKE"), os.environ["LD_LIBRARY_PATH"].split(":")[0].endswith("tutti")
    checked = "-c" in words and words[words.index("-c") + 1] == "1"
    print("# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809")
    print("#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   "
          "busbw  #wrong")
    if mode == "hang":
        time.sleep(600)
    if mode == "lanes" and os.environ.get("NCCL_DEBUG") == "INFO":
        print("vm:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/tutti/0")
    if mode == "lanes" and words[words.index("-n") + 1] == "150" and not lane():
        return 3
    if mode == "garbage":
        print("     1048576     Segmentation fault     nonsense here and there and here and there again")
        return 139
    size = first
    while size <= last:
        us = (10 if fast else 30) + size / (4e5 if fast else 3e5)
        wrong = ("3" if mode == "wrong" else "0") if checked else "N/A"
        speed = f"{us:9.2f}{size / us / 1e3:8.2f}{1.5 * size / us / 1e3:8.2f}"
        print(f"{size:12}  {size // 4:12}     float     sum      "
              f"-1{speed}{wrong:>8}{speed}{wrong if checked else 'N/A':>8}")
        size *= factor
    print("# Out of bounds values : 0 OK")
    print("# Avg bus bandwidth    : 1.0")
    return 2 if mode == "fail" else 0


if __name__ == "__main__":
    sys.exit(main())
