#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of pages, as they are written there, in a Debian 12 that has nothing but apt.

    python3 tests/install/clean_root.py [--root FOLDER] [--list] [PAGE...]

As root, with mmdebstrap, and with a network to fetch packages by; takes half an hour, so no test runs this. FOLDER is
made where there is none, and is kept: the next time what the pages have installed is there. Each page has a shell of
its own, in a copy of this tree. A command that the page shows an output of must print these lines, whatever the
numbers; others must end with status 0.
"""
import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

TREE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
PAGES = ["README.md", "docs/use/cpus.md", "docs/use/gpus.md", "docs/use/hangs.md", "docs/use/python.md",
         "examples/ddp/README.md", "docs/use/packages.md", "docs/operate/metrics.md"]
# An indented block, or a command in the text.
PART = re.compile(r"(?P<block>(?:^    .*\n|^\n)+)|"
                  r"`(?P<inline>(?:apt-get install|pip install|build/bin/tutti run) [^`]+)`", re.M)
COMMAND = re.compile(r"(?:[A-Z_]+=\S+ +)*(?:(?:make|apt|apt-get|pip|pip3|python|python3|tutti|cc|cd|export|prometheus|"
                     r"promtool|meson|torchrun|[\w./-]+/(?:tutti|python3?|pip|[\w-]+\.sh))\b)")
NOT_RUN = ((r"--gpu|libnccl", "wants GPUs"), (r"\bmake check", "takes half an hour, and CI runs it"),
           (r"make torch|--suite torch", "fetches 5 GB"), (r"diagnose|ncclras", "wants a job that hangs"))
FILES = {"#include": "sum.c", "import ": "program.py"}  # what the pages call their first program
SERVER = re.compile(r"prometheus ")  # does not end
# What a machine of its own would have: processes, devices, and shared memory that is not this machine's.
ENTER = """mount --bind "$1" "$1" && mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" &&
mount -t tmpfs none "$1/dev/shm" && mount -t sysfs none "$1/sys" && exec chroot "$@" """


def remark_cut(line):
    """The command, without what the page says of it behind two spaces."""
    return re.sub(r"(?<=\S) {2,}\S.*", "", line)


def read_block(lines):
    """[command, expected lines or None] of a block, where this is one of commands."""
    items, end = [], None
    shown = any(line.startswith("$ ") for line in lines)
    for line in lines:
        if end:
            items[-1][0] += "\n" + line
            end = None if line == end else end
        elif shown and not line.startswith("$ "):
            items[-1][1] = (items[-1][1] or []) + [line]
        elif shown or COMMAND.match(line):
            items.append([line[2:] if shown else remark_cut(line), None])
            here = re.search(r"<<'(\w+)'", line)
            end = here and here.group(1)
        elif line.strip():
            return []
    return items


def read_page(path):
    """Files that the page gives, and its commands in order."""
    files, commands = {}, []
    with open(os.path.join(TREE, path), encoding="utf-8") as file:
        text = file.read()
    for match in PART.finditer(text):
        if match["inline"]:
            commands.append([match["inline"], None])
            continue
        lines = [line[4:] for line in match["block"].strip("\n").split("\n")]
        name = next((name for start, name in FILES.items() if lines[0].startswith(start)), None)
        if name:  # the commands stand below
            code = next((place for place, line in enumerate(lines) if line.startswith("$ ")), len(lines))
            files.setdefault(name, "\n".join(lines[:code]) + "\n")
            lines = lines[code:]
        commands += read_block(lines)
    return files, commands


def why_not(command):
    return next((why for pattern, why in NOT_RUN if re.search(pattern, command)), None)


def script_of(commands):
    """Each command between two marks, in one shell, for `cd` and `export` hold."""
    lines = ["cd /root/tutti"]
    for number, (command, _) in enumerate(commands):
        if not why_not(command):
            command += " &" if SERVER.match(command) else ""
            command += "\nsleep 5; kill -0 $!" if command.endswith("&") else ""  # it lives
            lines += [f"printf '\\n@@begin {number}\\n'", command, f"printf '\\n@@end {number} %s\\n' $?"]
    return "\n".join(lines) + "\n"


def plain(line):
    return " ".join(re.sub(r"\d+", "#", line).split())


def judge(expected, status, said):
    """What is wrong, or None."""
    if expected is None:
        return f"ended with status {status}" if status else None
    seen = {plain(line) for line in said}
    lost = [line for line in expected if line.strip() not in ("", "...") and plain(line) not in seen]
    return f"did not print: {lost[0]}" if lost else None


class Root:
    """A Debian that is entered by chroot."""

    def __init__(self, folder):
        self.folder = folder
        if not os.path.exists(f"{folder}/etc/debian_version"):
            print(f"Making a Debian 12 in {folder}", flush=True)
            subprocess.run(["mmdebstrap", "--quiet", "--variant=apt", "--include=ca-certificates", "bookworm", folder],
                           check=True)
        for path in ("/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf"):
            if os.path.exists(path):
                shutil.copy(path, folder + path)
        with open(f"{folder}/etc/apt/apt.conf.d/99yes", "w", encoding="ascii") as file:
            file.write('APT::Get::Assume-Yes "true";\n')
        os.makedirs(f"{folder}/root/tutti", exist_ok=True)
        files = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=TREE,
                               check=True, capture_output=True).stdout
        packed = subprocess.run(["tar", "--null", "-T", "-", "-c"], cwd=TREE, input=files, check=True,
                                capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", f"{folder}/root/tutti"], input=packed, check=True)
        self.run("apt-get -q update")

    def run(self, script):
        """What the shell said."""
        with open(f"{self.folder}/root/commands.sh", "w", encoding="utf-8") as file:
            file.write(script)
        return subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", self.folder,
             "/usr/bin/env", "-i", "HOME=/root", "LANG=C.UTF-8", "PIP_CERT=/etc/ssl/certs/ca-certificates.crt",
             "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "bash", "/root/commands.sh"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            check=False).stdout


def run_page(root, page):
    """The number of commands that did not do what the page says."""
    files, commands = read_page(page)
    for name, text in files.items():
        with open(f"{root.folder}/root/tutti/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    said = root.run(script_of(commands))
    failed = 0
    for number, (command, expected) in enumerate(commands):
        first = command.split("\n", 1)[0]
        found = re.search(rf"^@@begin {number}\n(.*?)^@@end {number} (\d+)$", said, re.M | re.S)
        if why_not(command):
            print(f"{page}: not run, {why_not(command)}: {first}")
            continue
        lines = found.group(1).splitlines() if found else said.splitlines()
        wrong = judge(expected, int(found.group(2)), lines) if found else "the shell ended"
        print(f"{page}: {'FAILED' if wrong else 'ok'}: {first}")
        if wrong:
            failed += 1
            print(f"    {wrong}; it said last:", *lines[-25:], sep="\n    | ", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root")
    parser.add_argument("--list", action="store_true", help="only print the commands")
    parser.add_argument("pages", nargs="*", default=PAGES)
    options = parser.parse_args()
    if options.list:
        for page in options.pages:
            print(f"== {page}", *(command for command, _ in read_page(page)[1]), sep="\n")
        return 0
    if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
        sys.exit("this wants root, for chroot, and mmdebstrap")
    with contextlib.ExitStack() as stack:
        folder = options.root or stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        root = Root(os.path.abspath(folder))
        failed = sum(run_page(root, page) for page in options.pages)
    print(f"{failed} commands did not do what the pages say")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
