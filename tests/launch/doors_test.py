# SPDX-License-Identifier: Apache-2.0
"""doors_test.py SOURCES BUILD PAGE: the commands of a page of docs/use, as they are written there, in one shell.

Programs are where `make build` puts them, black boxes in a folder of this test. Of what a command is shown to print
every line must come, whatever numbers; a diagnosis is asked again until it does. Commands that build, fetch, or want
what this machine lacks are named and left out.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

import try_rdma_test as pages

NOT_RUN = ((r"^make build|^ninja ", lambda: "it is built"),
           (r"^apt-get|^pip install", lambda: "it fetches"),
           (r"^ncclras|^tutti-diagnose", lambda: "wants a job of NCCL that hangs"),
           (r"torchrun|-np 4 --gpu", lambda: "wants GPUs"),
           (r"examples/ddp", lambda: lacks("torch")),
           (r"sum\.py", lambda: lacks("numpy")))
MACHINES = re.compile(r"checks: ")  # what doctor counts is the machine's


def lacks(module):
    done = subprocess.run(["python3", "-c", f"import {module}"], stderr=subprocess.DEVNULL, check=False)
    return f"there is no {module}" if done.returncode else ""


def why_not(command):
    return next((why() for pattern, why in NOT_RUN if re.search(pattern, command)), "")


def plain(line):
    """Any number will do, any name of a communicator, and any of the calls that `tutti perf` makes in turn."""
    line = re.sub(r"\b(allreduce|barrier) #", "call #", line)
    return pages.clean_root.plain(re.sub(r"world-[0-9a-f]+", "world-0", line))


def prepare(folder, files):
    pages.put_programs(folder, "runtime,devel,extra")
    for name in ("bindings", "include"):
        os.symlink(os.path.join(pages.SOURCES, name), os.path.join(folder, name))
    os.symlink(os.path.join(pages.BUILD, "emulation"), os.path.join(folder, "build", "emulation"))
    for name, text in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)


def expect(shell, command, expected):
    """All lines that are shown come, of a diagnosis once the job is where it is to be: ranks may begin late."""
    end = time.monotonic() + (pages.PATIENCE if "tutti diagnose" in command else 0)
    while True:
        _, said = shell.run(command)
        seen = {plain(line) for line in said}
        lost = [line for line in expected if not MACHINES.search(line) and plain(line) not in seen]
        if not lost:
            return
        assert time.monotonic() < end, "\n".join([f"{command}: no line like {lost[0]}", *said[-40:]])


def follow(commands, folder):
    """The number of commands that ran."""
    shell, ran = pages.Shell(folder), 0
    for command, expected in commands:
        why = why_not(command)
        print(f"{'not run, ' + why + ': ' if why else ''}$ {command}", flush=True)
        if why:
            continue
        ran += 1
        if expected:
            expect(shell, command, expected)
        else:
            code, said = shell.run(command)
            assert code == 0, (command, code, said)
    shell.process.stdin.close()
    shell.process.wait(timeout=pages.PATIENCE)
    return ran


def main():
    page = sys.argv[3]
    files, commands = pages.clean_root.read_page(page)
    with (tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
          tempfile.TemporaryDirectory(dir="/dev/shm", ignore_cleanup_errors=True) as boxes):
        prepare(folder, files)
        # PATH: Debian's Python, which has NumPy and PyTorch, whatever stands before it.
        os.environ.update(TUTTI_TRACE_DIR=boxes, PATH=f"/usr/bin:{os.environ['PATH']}")
        ran = follow(commands, folder)
    print(f"{ran} of {len(commands)} commands of {page} do what it says")
    return ran == 0


if __name__ == "__main__":
    sys.exit(main())
