#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stalls.py FILE: until it is ended, writes down when this process, which wants next to nothing, did not get to run for
two seconds or more: when and for how long. Then the machine stood still, or was overloaded, and tests that failed
at that time may have failed for it."""
import os
import sys
import time

PAUSE, STALL = 0.1, 2.0


def main():
    with open(sys.argv[1], "w", encoding="utf-8", buffering=1) as file:
        before = time.monotonic()
        while True:
            time.sleep(PAUSE)
            now = time.monotonic()
            if now - before >= STALL:
                load = " ".join(f"{one:.0f}" for one in os.getloadavg())
                print(f"{time.strftime('%T')}: nothing ran for {now - before:.1f} s (load {load})", file=file)
            before = now


if __name__ == "__main__":
    main()
