# SPDX-License-Identifier: Apache-2.0
"""Programs with a time limit, results in files, and progress: what all parts share."""
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

BEGAN = time.monotonic()
FILE = "results.json"
LATE = 124  # the exit status of a program that ran past its limit, as timeout(1) has it


def say(*words):
    print(f"[{time.monotonic() - BEGAN:6.1f} s]", *words, file=sys.stderr, flush=True)


def die_with_parent():
    # PR_SET_PDEATHSIG: nothing is left on the GPUs when this script is killed
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def descendants(pid):
    """Processes below pid. Launchers put theirs into groups of their own,
    which a signal to the launcher's group does not reach."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                children.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(int(name))
        except OSError:
            pass
    found, todo = [], [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def kill_tree(pid):
    for each in descendants(pid) + [pid]:
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Job:
    """A program that is running. Its output goes to a file,
    so that a grandchild that lives on cannot hold this script up."""

    def __init__(self, command, env=None):
        self.command, self.began, self.status, self.seconds = command, time.monotonic(), None, 0.0
        self.file = tempfile.TemporaryFile()
        try:
            # A group of its own, to be killed as a whole, but the same session.
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=self.file,
                                            stderr=subprocess.STDOUT, process_group=0, preexec_fn=die_with_parent)
        except OSError as error:
            self.process, self.status = None, 127
            self.file.write(f"{command[0]}: {error}\n".encode())

    def poll(self):
        if self.status is None:
            self.status = self.process.poll()
            self.seconds = time.monotonic() - self.began
        return self.status

    def kill(self, status=LATE):
        if self.poll() is not None:
            return
        kill_tree(self.process.pid)
        self.process.wait()
        self.status, self.seconds = status, time.monotonic() - self.began

    def text(self):
        self.file.seek(0)
        return self.file.read().decode(errors="replace")


def run_all(jobs, limit, grace=20.0, every=None):
    """Waits until all have ended. Past the limit, or `grace` seconds after the first failure, what still runs is
    killed. every(): called again and again meanwhile. Returns the jobs."""
    until = time.monotonic() + limit
    try:
        while any(job.poll() is None for job in jobs):
            if any(job.status for job in jobs):
                until = min(until, time.monotonic() + grace)
                grace = float("inf")
            if time.monotonic() > until:
                kill_all(jobs)
            if every:
                every()
            time.sleep(0.01)
    finally:  # the script itself may be told to end
        kill_all(jobs)
    return jobs


def run(command, env=None, limit=120.0):
    return run_all([Job(command, env)], limit)[0]


def kill_all(jobs):
    for job in jobs:
        job.kill()


def stop(*_):
    """For signals: only raises, as a handler may run in the middle of a wait for a child. Who waits, kills."""
    sys.exit(143)


def tail(text, most=1500):
    return text if len(text) <= most else "..." + text[-most:]


class Results:
    """What a part has measured, under its name in FOLDER/results.json, written anew after each step:
    a part that is stopped has left what it had."""

    def __init__(self, folder, part, keep=False, **head):
        os.makedirs(folder, exist_ok=True)
        self.path, self.every = os.path.join(folder, FILE), load_all(folder)
        self.data = self.every[part] = self.every.get(part) if keep and part in self.every else head
        self.data["complete"] = False
        self.failed = 0  # programs over tutti

    def complain(self, name, library, complaint):
        """Of a program over that library."""
        self.failed += library == "tutti"
        self.data["complaints"].append(f"{name}: {complaint}")
        say(f"{name}: {complaint}")

    def end(self, budget):
        """How many programs have failed or were left out: the part's status."""
        bad = self.failed + budget.left_out
        self.save(complete=not bad)
        return bad

    def save(self, complete=False):
        self.data["complete"] = complete
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.every, file, indent=0)
        os.replace(self.path + ".new", self.path)


def load_all(folder):
    """{part: what it has left}"""
    try:
        with open(os.path.join(folder, FILE), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def load(folder, part):
    return load_all(folder).get(part)


class Budget:
    """Seconds that a part may take; 0: no end."""

    def __init__(self, seconds):
        self.until = time.monotonic() + seconds if seconds else float("inf")
        self.left_out = 0  # programs for which there was no time

    def left(self):
        return self.until - time.monotonic()

    def limit(self, most):
        """The limit of the next program: 0 if it should not be begun, and is left out."""
        left = self.left()
        self.left_out += left < 3
        return 0 if left < 3 else min(most, left)


def table(heads, rows):
    """Markdown; also readable as it is."""
    cells = [[str(cell) for cell in row] for row in [heads, *rows]]
    wide = [max(len(row[at]) for row in cells) for at in range(len(heads))]
    lines = ["| " + " | ".join(cell.ljust(wide[at]) for at, cell in enumerate(row)) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in wide) + "|", *lines[1:]]) + "\n"


def versus(nccl, tutti, form):
    """Three cells: NCCL's number and tutti's, as far as there are any, and the one by the other."""
    return [*("-" if value is None else format(value, form) for value in (nccl, tutti)),
            f"{nccl / tutti:.2f}" if nccl and tutti else "-"]


def size_name(size):
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:g} {unit}"
    return f"{size} B"


def of_host(hosts, rank, count):
    """The settings by which a rank of `count` passes for one of its host, of `hosts`: loopback is their network."""
    return {"NCCL_HOSTID": str(rank * hosts // count), "NCCL_SOCKET_IFNAME": "lo"} if hosts > 1 else {}


def environment(folder, extra=None):
    """That of a program that is to use the libnccl.so.2 in folder. Multicast (NVLS) is off for all."""
    path = ":".join(filter(None, (folder, os.environ.get("LD_LIBRARY_PATH"))))
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    return {**os.environ, **root, "NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
            "NVSHMEM_DISABLE_NVLS": "1", "PYTHONUNBUFFERED": "1", "LD_LIBRARY_PATH": path,
            **(extra or {})}
