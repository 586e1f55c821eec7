#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the screen of tutti top beside a job over TCP one of whose ranks is stopped, as tmux keeps it:

    top.py TUTTI PROGRAM >top.svg

PROGRAM: for example build/tests/collective/soak. Needs tmux and the Python package rich.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from rich.console import Console
from rich.text import Text

COLUMNS, LINES = 100, 26
TUTTI, PROGRAM = sys.argv[1:]


def main():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        env = dict(os.environ, TUTTI_TRACE_DIR=folder, TUTTI_TRANSPORT="tcp", TUTTI_LANES="2", TUTTI_TIMEOUT="60s",
                   LANG="C.UTF-8")
        tmux = ["tmux", "-S", f"{folder}/tmux", "-f", "/dev/null"]
        with subprocess.Popen([TUTTI, "run", "-n", "4", "--no-tag", "--", PROGRAM, "--seconds", "60"], env=env,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as job:
            time.sleep(3)
            subprocess.run([*tmux, "new-session", "-d", "-x", str(COLUMNS), "-y", str(LINES), TUTTI, "top"], env=env,
                           check=True)
            time.sleep(4)
            ranks = subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True, text=True, check=True)
            os.kill(int(ranks.stdout.split()[2]), signal.SIGSTOP)
            time.sleep(9)
            screen = subprocess.run([*tmux, "capture-pane", "-e", "-p"], capture_output=True, text=True, check=True)
            subprocess.run([*tmux, "kill-server"], check=False)
            job.kill()  # its ranks end with it
    console = Console(width=COLUMNS, record=True, file=open(os.devnull, "w", encoding="utf-8"), force_terminal=True)
    console.print(Text.from_ansi(screen.stdout.rstrip("\n")), soft_wrap=True)
    svg = console.export_svg(title="tutti top")
    print(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S))  # readers fetch nothing from elsewhere


main()
