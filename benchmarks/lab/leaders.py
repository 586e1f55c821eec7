# SPDX-License-Identifier: Apache-2.0
"""Two path masters share three members of etcd. The one that leads is killed, or stopped, at a moment that is drawn,
while jobs open RDMA lanes. Each lane says how long it waited for its port: TUTTI_PATH_WAIT at most."""
import os
import random
import re
import signal
import socket
import time
import urllib.request

from fabric import Failed, Job, Lab, processors
from paths import TOKEN, Paths
from result import Row, spread

TITLE = "path masters that share etcd: the leader goes while lanes open"
KILLS = int(os.environ.get("LEADERS_KILLS", "50"))
PAIRS, JOBS, LANES = 2, 4, 2  # pairs of hosts; jobs at once, so that several jobs have the same two NICs
WAIT, SLACK = 200, 50  # ms: TUTTI_PATH_WAIT, by default; what a busy machine may add
SAID = re.compile(r"lane (\d+) from (\S+) to (\S+) opens with port (\d+) of the path master, ([0-9.]+) ms")


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Masters(Paths):
    """Three members of etcd, two masters, and the agent of all hosts."""

    def begin(self):
        self.log = "leaders.log"
        self.start_etcd()
        self.leading = [self.lead() for _ in range(2)]
        self.until_one_leads()
        self.url = ",".join(url for url, _ in self.leading)
        self.start_agent(self.path("paths"))

    def start_etcd(self):
        ports = free_ports(6)
        cluster = ",".join(f"m{i}=http://127.0.0.1:{ports[3 + i]}" for i in range(3))
        for i in range(3):
            client, peer = (f"http://127.0.0.1:{ports[i + k]}" for k in (0, 3))
            self.run_beside("etcd", "--name", f"m{i}", "--data-dir", self.path(f"m{i}"), "--listen-client-urls", client,
                            "--advertise-client-urls", client, "--listen-peer-urls", peer,
                            "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster, "--log-level", "error",
                            "--unsafe-no-fsync")
        self.members = "etcd:" + ",".join(f"http://127.0.0.1:{port}" for port in ports[:3])

    def lead(self, listen="127.0.0.1:0"):
        return self.start_master(self.members, listen), self.programs[-1]

    def leads(self, url):
        request = urllib.request.Request(f"{url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        try:
            with urllib.request.urlopen(request, timeout=0.5) as answer:
                return b"\ntutti_paths_leads 1\n" in answer.read()
        except OSError:
            return False

    def until_one_leads(self):
        """The place of the only one that says so."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            found = [i for i, (url, _) in enumerate(self.leading) if self.leads(url)]
            if len(found) == 1:
                return found[0]
            time.sleep(0.1)
        raise Failed("no path master leads")


def start_jobs(lab, masters):
    settings = {"TUTTI_IB_LANES": str(LANES), "TUTTI_DEBUG": "info", "TUTTI_PATH_AGENT": masters.path("paths")}
    words = ["allreduce", "-b", "64K", "-e", "64K", "-n", "40", "-w", "0"]
    return [Job(lab, [f"h{job % PAIRS}", f"h{PAIRS + job % PAIRS}"], words, settings) for job in range(JOBS)]


def goes(masters, leader, sleeps, after):
    time.sleep(after)
    masters.leading[leader][1].send_signal(signal.SIGSTOP if sleeps else signal.SIGKILL)


def comes_back(masters, leader, sleeps):
    program = masters.leading[leader][1]
    if sleeps:
        program.send_signal(signal.SIGCONT)
        return
    program.wait()
    masters.leading[leader] = masters.lead(masters.leading[leader][0].removeprefix("http://"))


def openings(jobs):
    """(from, to, port, ms) of each lane, as the logs of jobs say."""
    found = []
    for job in jobs:
        with open(job.log_name, encoding="utf-8") as log:
            found += [(one[2], one[3], int(one[4]), float(one[5])) for one in SAID.finditer(log.read())]
    return found


def measure(bench):
    drawn, waits, given, twice = random.Random(47), [], 0, 0
    idle, ticks = processors()
    with Lab(bench.build, {"hosts": 2 * PAIRS, "nics": 1, "leaves": 2, "spines": 4, "rate": "100mbit"}, True) as lab:
        with Masters(lab) as masters:
            for kill in range(KILLS):
                leader, sleeps = masters.until_one_leads(), kill % 2 == 0
                jobs = start_jobs(lab, masters)
                try:
                    goes(masters, leader, sleeps, drawn.random())
                    for job in jobs:
                        job.result(90)
                finally:
                    for job in jobs:
                        job.__exit__()
                comes_back(masters, leader, sleeps)
                lanes = openings(jobs)
                ports = [(*ends, port) for *ends, port, _ in lanes if port]
                waits += [ms for *_, ms in lanes]
                given += len(ports)
                twice += len(ports) - len(set(ports))
                bench.say(f"{kill + 1}: the leader {'sleeps' if sleeps else 'is killed'}: {len(lanes)} lanes, "
                          f"{len(ports)} with ports, after {max(waits[-len(lanes):], default=0):.0f} ms at most")
    if not waits:
        raise Failed("no lane said how long it waited")
    late = sum(ms > WAIT + SLACK for ms in waits)
    idle = 100 * (processors()[0] - idle) / max(1, processors()[1] - ticks)
    bench.keep(waits=waits, given=given, twice=twice)
    return [Row(f"{KILLS} leaders go: ports that two lanes have", "", "0", f"{twice} of {given}", not twice),
            Row(f"lanes that opened later than {WAIT} ms after they asked, and {SLACK} ms for the machine", "", "0",
                f"{late} of {len(waits)}; {spread(waits)} ms; {len(waits) - given} without a port of a master; "
                f"processors {idle:.0f} % idle",
                not late)]
