# SPDX-License-Identifier: Apache-2.0
"""Two ranks with two ports of the software RDMA device each, in two networks that links join; the soak, which is the
first argument of the test, checks every result of random collectives."""
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time

from links import await_traffic, sent

PATIENCE = 60
SOON = 15  # before packets are given up by the longer setting of a test
AT_ONCE = 30  # seconds; probes begin after a minute
BEFORE_ADAPTERS = 100  # starved ranks look seldom, and time in which they did not look does not count
MUCH = 1 << 20  # bytes
BOTH = ["tp0", "tp1"]
TUNED = {"TUTTI_PROBE_AFTER": "60s", "TUTTI_LANE_SILENCE": "60s", "TUTTI_EAGER": "256", "TUTTI_SEGMENT": "16K",
         "TUTTI_RECONNECT": "10ms", "TUTTI_TIMEOUT": "200s", "TUTTI_IB_TIMEOUT": "14"}
SETTINGS = {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "10.83.0.1",
            "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "rdma", "TUTTI_TRANSPORT": "verbs",
            "TUTTI_SOCKET_IFNAME": "tm", **TUNED, "TUTTI_DEBUG": "info",
            "SOFTVERBS_DEVICES": "soft_tp0=tp0,soft_tp1=tp1", "SOFTVERBS_POLL": "sleep"}


class Job:
    """Random collectives on two ranks, each result checked, until end()."""

    def __init__(self, other, settings, ours=None, soak=("--seconds", "1000", "--resets", "0"), prepare=None,
                 program=None):
        self.soak = program or [*shlex.split(os.environ.get("MESON_EXE_WRAPPER", "")), sys.argv[1], *soak]
        self.log = tempfile.NamedTemporaryFile(prefix="tutti-ports-")
        self.ranks = [self.rank(0, [], ours or {}, prepare), self.rank(1, other.inside, settings)]

    def rank(self, number, inside, settings, prepare=None):
        told = {**os.environ, **SETTINGS, **settings, "RANK": str(number), "TUTTI_HOSTID": f"host{number}"}
        env = {name: value for name, value in told.items() if value is not None}  # None: left to the library
        return subprocess.Popen([*inside, *self.soak], env=env, stdout=self.log, stderr=self.log,
                                preexec_fn=prepare)

    def carries(self, links, patience=PATIENCE):
        await_traffic(self.ranks, links, MUCH, patience)

    def carries_alone(self, link, backup):
        """While so much goes over the link the backup is idle: soon,
        for at the start and after a failure it stands in for a while."""
        end = time.monotonic() + PATIENCE
        while True:
            before = sent(backup)
            self.carries([link])
            if sent(backup) - before < MUCH // 10:
                return
            assert time.monotonic() < end, f"the backup {backup} is not idle"

    def says(self, sentence):
        end = time.monotonic() + PATIENCE
        while sentence not in self.text():
            assert time.monotonic() < end, f"it does not say \"{sentence}\""
            time.sleep(0.05)

    def end(self):
        self.ranks[1].send_signal(signal.SIGTERM)
        return [one.wait(PATIENCE) for one in self.ranks]

    def text(self):
        with open(self.log.name, encoding="utf-8") as log:
            return log.read()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for one in self.ranks:
            one.kill()
            one.wait()
        if kind:
            print(self.text()[-6000:])


def judge(job):
    assert job.end() == [0, 0], "a rank has failed"
    assert job.text().count(" 0 wrong") >= 2


def tell(inside, *words):
    """A command to the software RDMA device of the rank in a network. Returns the answer."""
    program = os.path.join(os.path.dirname(os.environ["TUTTI_IBVERBS_LIBRARY"]), "softverbs")
    done = subprocess.run([*inside, program, "ctl", "all", *words], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def disturb(other, chance):
    """Draws a fault. Returns its name and what takes it back."""
    kind, link = chance.choice(("down", "lossy", "swallowed", "black hole", "taken out")), chance.choice(BOTH)
    inside = chance.choice(([], other.inside))
    if kind == "down":
        other.set(link, "down")
        return kind, lambda: other.set(link, "up")
    if kind == "lossy":
        tell(inside, "fault", "drop=0.02,dup=0.02,reorder=0.02")
        return kind, lambda: tell(inside, "clear")
    if kind == "swallowed":
        number = other.names.index(link)
        other.swallow(number, chance.choice((False, True)))
        return kind, lambda: other.pass_on(number)
    do, undo = {"black hole": ("freeze", "thaw"), "taken out": ("unplug", "plug")}[kind]
    if kind == "taken out":
        link = "tp1"  # not both: who has no device open hears no commands
    tell(inside, do, f"soft_{link}")
    return kind, lambda: tell(inside, undo, f"soft_{link}")
