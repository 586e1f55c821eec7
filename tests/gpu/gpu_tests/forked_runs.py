# SPDX-License-Identifier: Apache-2.0
"""A program that has loaded what many runs need, and forks each of them: to import PyTorch takes longer than most of
its tests do. `serve` is its side, `Parent` that of who has things run."""
import json
import os
import select
import subprocess
import sys
import time

from gpu_parts import run

READY = b"ready to fork\n"
LOOK = 0.05  # seconds between two looks at children
PID, STATUS, OUTPUT = "run.pid", "run.status", "run.output"  # files of a run, in its folder


def put(path, number):
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(str(number))
    os.replace(path + ".new", path)


def get(path):
    """None: it is not there yet."""
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except FileNotFoundError:
        return None


def child(order, run_one):
    """A run, in a group of its own; its exit status is that of the process."""
    status = 1
    try:
        os.setpgid(0, 0)
        run.die_with_parent()
        out = os.open(os.path.join(order["folder"], OUTPUT), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        for fd, to in ((null, 0), (out, 1), (out, 2)):
            os.dup2(fd, to)
        os.environ.update(order["env"])
        status = run_one(order["name"])
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:  # pylint: disable=broad-exception-caught  # nothing may reach the loop of who serves
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def reap(folders):
    while folders:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        put(os.path.join(folders.pop(pid), STATUS), os.waitstatus_to_exitcode(status))


def serve(run_one):
    """Forks a run for each line of its input, {"name", "folder", "env"}, until that ends; run_one(name) runs in the
    child and returns its exit status. Prints a line once it is ready. What it has loaded must be fit to be forked:
    no threads, no GPU that is in use."""
    orders, folders, rest = sys.stdin.fileno(), {}, b""
    sys.stdout.flush()
    os.write(sys.stdout.fileno(), READY)
    while orders is not None or folders:
        ready = select.select([orders] if orders is not None else [], [], [], LOOK)[0]
        if ready:
            news = os.read(orders, 65536)
            rest += news
            orders = orders if news else None
            while b"\n" in rest:
                line, _, rest = rest.partition(b"\n")
                order = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    child(order, run_one)
                folders[pid] = order["folder"]
                put(os.path.join(order["folder"], PID), pid)
        reap(folders)


class Forked:
    """A run, to its user the same as a run.Job."""

    def __init__(self, parent, name, folder, env):
        self.parent, self.folder, self.began, self.status, self.seconds = parent, folder, time.monotonic(), None, 0.0
        parent.order({"name": name, "folder": folder, "env": env})

    def poll(self):
        if self.status is None:
            gone = self.parent.gone()  # asked first: what ended before has left its status
            self.status = get(os.path.join(self.folder, STATUS))
            if self.status is None and gone:
                self.status = 1
            self.seconds = time.monotonic() - self.began
        return self.status

    def kill(self, status=run.LATE):
        pid = None
        while self.poll() is None and pid is None:
            pid = get(os.path.join(self.folder, PID))
            time.sleep(0 if pid else LOOK)
        if pid is None:
            return
        run.kill_tree(pid)
        while self.poll() is None:
            time.sleep(LOOK)
        self.status = status

    def text(self):
        try:
            with open(os.path.join(self.folder, OUTPUT), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""


class Parent:
    """The program `command`, which calls serve(). It ends with this script."""

    def __init__(self, command, env):
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        process_group=0, preexec_fn=run.die_with_parent)

    def ready(self, until):
        """False: it cannot serve, or not until then. What it printed while it loaded is passed over."""
        said = b""
        while not said.endswith(READY):
            if not select.select([self.process.stdout], [], [], max(0, until - time.monotonic()))[0]:
                return False
            news = os.read(self.process.stdout.fileno(), 65536)
            if not news:
                return False
            said += news
        return True

    def gone(self):
        return self.process.poll() is not None

    def order(self, order):
        try:
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it is gone, which poll() finds

    def close(self):
        """What it still runs is killed."""
        run.kill_tree(self.process.pid)
        self.process.communicate()
