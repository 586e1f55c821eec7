# SPDX-License-Identifier: Apache-2.0
"""gpu_messages_memory.py TUTTI PROGRAM LIBRARY: one call for memory of rank 0 after the other fails, until
there are no more. Each time both ranks end, with the right end or a sentence."""
import os
import subprocess
import sys


def attempt(launcher, program, library, number):
    """Whether a call failed."""
    env = dict(os.environ, LD_PRELOAD=library, TUTTI_DEBUG="none")
    done = subprocess.run([launcher, "run", "-n", "2", "--timeout", "60", "--", program, "memory", f"calloc:{number}"],
                          env=env, capture_output=True, text=True, check=False)
    if done.returncode or "fired " not in done.stdout:
        sys.exit(f"call {number}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return "fired 1" in done.stdout


def main():
    launcher, program, library = sys.argv[1:]
    number = 1
    while attempt(launcher, program, library, number):
        number += 1
    print(f"{number - 1} calls failed")
    return number < 4


if __name__ == "__main__":
    sys.exit(main())
