# SPDX-License-Identifier: Apache-2.0
"""A job of torchrun loses a rank to SIGSTOP, and goes on by itself: tutti agent and tutti master name the rank, the
master's hook kills it, torchrun starts all ranks anew, and they go on from their checkpoint. Prints where the time
went.

    python3 examples/recovery/recover.py [--ranks 8] [--steps 40] [--every 10] [--rank 5] [--at 27] [--alone]

Exit status 1: another rank was called stopped, or the losses are not those of a run that nobody disturbed. With --alone
there is neither agent nor master: what the library and torchrun do by themselves.
"""
import argparse
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
SHARED = "/dev/shm"  # where black boxes are memory
DEFAULT = 1800.0     # seconds after which a group of PyTorch gives up
REMOVED = 15         # seconds from the end of the hook; without it torchrun kills the process a minute after the fault


class Failure(Exception):
    """What was awaited did not come, or was not right."""


class Program:
    """A program in a process group of its own, and what it has said: (time, line)."""

    def __init__(self, words, env=None):
        self.process = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        errors="replace", start_new_session=True)
        self.lines = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append((time.time(), line.rstrip("\n")))

    def find(self, pattern):
        """(time, match) of every line that fits."""
        return [(when, found) for when, line in list(self.lines) if (found := re.search(pattern, line))]

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def end(self):
        self.stop()
        self.reader.join(5)
        if not self.reader.is_alive():  # else close() would wait for it
            self.process.stdout.close()

    def tail(self):
        return "\n".join(line for _, line in self.lines[-150:])


class Job:
    """torchrun with its ranks, and the folder that these write into."""

    def __init__(self, options, folder, port):
        self.folder, self.options = folder, options
        self.boxes = os.path.join(folder, "boxes")
        os.makedirs(self.boxes)
        env = dict(os.environ, TUTTI_TRACE_DIR=self.boxes, OMP_NUM_THREADS="1")
        env.setdefault("TUTTI_SPIN", "0")  # more ranks than processors
        if os.path.isdir(os.path.join(ROOT, "bindings", "python")):
            env["PYTHONPATH"] = os.pathsep.join(filter(None, (os.path.join(ROOT, "bindings", "python"),
                                                              env.get("PYTHONPATH"))))
        # A place for rank 0's output: without any, torchrun of PyTorch 1.13 fails under Python 3.11.
        self.program = Program([sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(options.ranks),
                                "--max_restarts", "1", "--monitor_interval", "0.1", "--master_addr", "127.0.0.1",
                                "--master_port", str(port),
                                "--redirects", "0:1", "--tee", "0:1", "--log_dir", os.path.join(folder, "log"),
                                os.path.join(HERE, "trainer.py"), "--folder", folder, "--steps", str(options.steps),
                                "--every", str(options.every), "--width", str(options.width), "--backend",
                                options.backend], env)

    def life(self):
        """What rank 0 has told so far, whole lines only."""
        try:
            with open(os.path.join(self.folder, "life"), encoding="utf-8") as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def wait(self, condition, what, patience=None):
        patience = patience or self.options.patience
        end = time.monotonic() + patience
        while not (came := condition()):
            if self.program.process.poll() is not None and not condition():
                raise Failure(f"torchrun ended with status {self.program.process.returncode} before {what}:\n"
                              f"{self.program.tail()}")
            if time.monotonic() > end:
                raise Failure(f"{what}: not within {patience:g} s:\n{self.program.tail()}")
            time.sleep(0.02)
        return came

    def finish(self):
        """The loss of every step, as it was told last."""
        self.wait(lambda: self.program.process.poll() is not None, "the end of the job")
        if self.program.process.returncode:
            raise Failure(f"torchrun ended with status {self.program.process.returncode}:\n{self.program.tail()}")
        return {told["step"]: told["loss"] for told in self.life() if told["what"] == "step"}

    def end(self):
        """All of it, also ranks that are stopped, whose end closes what the program's lines are read from."""
        self.program.stop()
        for name in os.listdir(self.folder):
            if name.startswith("pid."):
                with open(os.path.join(self.folder, name), encoding="ascii") as file:
                    kill(int(file.read()), self.folder)
        self.program.end()


def kill(pid, folder):
    """Only if the process is one of the job in this folder."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            ours = folder.encode() in file.read()
        if ours:
            os.kill(pid, signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        pass


class Watch:
    """The master with its hook, and the agent of this host."""

    def __init__(self, options, folder, boxes):
        token = os.path.join(folder, "token")
        with open(token, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(16) + "\n")
        self.master = Program([options.tutti, "master", "--token", token, "--listen", "127.0.0.1:0", "--stuck",
                               options.stuck, "--sure", "certain", "--act", "--hook",
                               os.path.join(HERE, "hooks", "kill.sh")],
                              dict(os.environ, TUTTI_HOOK_ACT="1"))
        end = time.monotonic() + options.patience
        while not (at := self.master.find(r"Agents report to (\S+)")):
            if self.master.process.poll() is not None or time.monotonic() > end:
                raise Failure(f"the master does not start: {self.master.tail()}")
            time.sleep(0.02)
        self.agent = Program([options.tutti, "agent", "--master", at[0][1].group(1), "--token", token, "--dir", boxes,
                              "--host", os.uname().nodename])

    def verdicts(self):
        return self.master.find(r"^VERDICT: (.* is stopped.*)")

    def hooks(self):
        return self.master.find(r"hook of verdict \d+: (.*)")

    def end(self):
        self.master.end()
        self.agent.end()


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def latest(life, what, step=None):
    return next((told for told in reversed(life)
                 if told["what"] == what and (step is None or told["step"] == step)), None)


def disturb(job, watch, options):
    """Stops a rank, and returns the times of all that comes of it."""
    job.wait(lambda: latest(job.life(), "step", options.at), f"step {options.at}")
    with open(os.path.join(job.folder, f"pid.{options.rank}"), encoding="ascii") as file:
        pid = int(file.read())
    times = {"fault": time.time()}
    os.kill(pid, signal.SIGSTOP)
    before = job.life()
    times["saved"] = latest(before, "saved")["time"]
    print(f"rank {options.rank} (process {pid}) is stopped after step {latest(before, 'step')['step']}, "
          f"the checkpoint is of step {latest(before, 'saved')['step']}", flush=True)
    if watch:
        times["verdict"] = job.wait(watch.verdicts, "a verdict")[0][0]
        job.wait(watch.hooks, "the end of the hook")
    job.wait(lambda: gone(pid), "the end of the stopped process", REMOVED if watch else None)
    times["gone"] = time.time()
    lives = len([told for told in before if told["what"] == "begin"])
    job.wait(lambda: len([told for told in job.life() if told["what"] == "resume"]) > lives, "a resumed job")
    life = job.life()
    times["begin"], times["resume"] = latest(life, "begin")["time"], latest(life, "resume")["time"]
    times["from"], times["reached"] = latest(life, "resume")["step"], latest(before, "step")["step"]
    again = job.wait(lambda: latest(job.life()[len(life) - 1:], "step", times["reached"]), "the step of the fault")
    times["again"] = again["time"]
    return pid, times


def report(times, options):
    """The split of C4: what was computed for nothing, detection, diagnosis and isolation, a new beginning."""
    lost = times["fault"] - times["saved"]
    if "verdict" in times:
        waits = [("detection: until the master's verdict names the rank", times["verdict"] - times["fault"]),
                 ("diagnosis and isolation: until the process is removed", times["gone"] - times["verdict"])]
    else:
        waits = [("detection and isolation: until the process is removed", times["gone"] - times["fault"])]
    parts = [("work since the checkpoint", lost), *waits,
             ("re-initialisation: until training goes on", times["resume"] - times["gone"])]
    print(f"\n{'time lost':62}{'seconds':>8}")
    for name, seconds in parts:
        print(f"{name:62}{seconds:8.1f}")
    print(f"{'  of it: torchrun notices, and a new rank 0 begins':62}{times['begin'] - times['gone']:8.1f}\n"
          f"{'  of it: PyTorch is loaded, ranks meet, the checkpoint is read':62}"
          f"{times['resume'] - times['begin']:8.1f}\n"
          f"{'all':62}{sum(seconds for _, seconds in parts):8.1f}\n"
          f"{'PyTorch waits by default, before it gives up':62}{DEFAULT:8.1f}")
    print(f"went on from step {times['from']}; step {times['reached']} was done again "
          f"{times['again'] - times['fault']:.1f} s after the fault; load of this host {os.getloadavg()[0]:.0f}, "
          f"{os.cpu_count()} processors, {options.ranks} ranks", flush=True)


def compare(losses, undisturbed, steps):
    if sorted(losses) != list(range(1, steps + 1)) or sorted(undisturbed) != sorted(losses):
        raise Failure(f"not all of {steps} steps have a loss: {sorted(losses)}, {sorted(undisturbed)}")
    apart = max(abs(losses[step] - undisturbed[step]) for step in losses)
    print(f"loss of step {steps}: {losses[steps]!r}, undisturbed {undisturbed[steps]!r}; of all steps they differ by "
          f"{apart:g} at most")
    if apart:
        raise Failure("the losses differ")


def check(watch, pid, options):
    """One process is called stopped, which is the rank. Where processors are few others may be called slow, too: no
    hook runs for that, and torchrun begins anew once at most."""
    said = [found.group(1) for _, found in watch.verdicts()]
    print(f"verdict: {said[0]}")
    if len(said) != 1 or not re.match(rf"rank {options.rank}\b.*process {pid}\b.* is stopped", said[0]):
        raise Failure("want one verdict, of that rank:\n" + watch.master.tail())
    if any(found.group(1) != "exit status 0" for _, found in watch.hooks()):
        raise Failure("a hook did not end well:\n" + watch.master.tail())


def hold_port():
    """A socket that is bound, and does not listen. Nobody is given its port before it is closed; torchrun, which sets
    SO_REUSEADDR, listens there all the same. PyTorch takes seconds to be loaded."""
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held


def run(options, folder):
    things, held = [], []
    try:
        def start(name):
            held.append(hold_port())
            things.append(Job(options, os.path.join(folder, name), held[-1].getsockname()[1]))
            return things[-1]
        undisturbed = start("undisturbed")
        if not options.together:
            undisturbed.finish()
        job, watch = start("disturbed"), None
        if not options.alone:
            watch = Watch(options, folder, job.boxes)
            things.insert(0, watch)  # it ends before the job does, which it would call dead
        pid, times = disturb(job, watch, options)
        if watch:
            check(watch, pid, options)
        report(times, options)
        compare(job.finish(), undisturbed.finish(), options.steps)
    finally:
        for thing in things:
            thing.end()
        for port in held:
            port.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--rank", type=int, default=5, help="which is stopped")
    parser.add_argument("--at", type=int, default=27, help="after which step")
    parser.add_argument("--width", type=int, default=128, help="of the model")
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--stuck", default="5s", help="as of tutti master")
    parser.add_argument("--alone", action="store_true", help="without agent and master")
    parser.add_argument("--together", action="store_true", help="the undisturbed run beside the other, to save time")
    parser.add_argument("--patience", type=float, default=600, help="seconds to wait for anything")
    parser.add_argument("--tutti", default=shutil.which("tutti") or os.path.join(ROOT, "build", "bin", "tutti"))
    options = parser.parse_args()
    if not options.every <= options.at < options.steps or not 0 < options.rank < options.ranks:
        parser.error("want --every <= --at < --steps, and 0 < --rank < --ranks")
    with tempfile.TemporaryDirectory(prefix="tutti-recovery-", dir=SHARED if os.path.isdir(SHARED) else None) as folder:
        try:
            run(options, folder)
        except Failure as failure:
            print(f"FAILED: {failure}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
