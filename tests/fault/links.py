# SPDX-License-Identifier: Apache-2.0
"""For tests of links that fail: two networks, this process's own and another process's,
with several links between them."""
import os
import shutil
import subprocess
import sys
import time

INSIDE = "TUTTI_TEST_OWN_NETWORK"


def ip(*words, inside=()):
    subprocess.run([*inside, "ip", *words], check=True)


def have_own():
    tools = all(shutil.which(tool) for tool in ("unshare", "nsenter", "ip"))
    return tools and subprocess.run(["unshare", "-rn", "ip", "link", "add", "tpx", "type", "veth"], check=False,
                                    stderr=subprocess.DEVNULL).returncode == 0


def sent(link):
    with open("/proc/net/dev", encoding="ascii") as lines:
        return next(int(line.split(":")[1].split()[8]) for line in lines if line.strip().startswith(link + ":"))


def await_traffic(ranks, links, size, patience):
    """So many bytes go over each of the links, while all ranks live."""
    until, end = {link: sent(link) + size for link in links}, time.monotonic() + patience
    while any(sent(link) < until[link] for link in links):
        assert all(one.poll() is None for one in ranks), "a rank gave up"
        assert time.monotonic() < end, f"no traffic on {links}"
        time.sleep(0.01)


class Other:
    """A network of its own, to which links lead from here:
    link i has the addresses 10.83.i.1 here and 10.83.i.2 there."""

    def __init__(self, names, seconds=300):
        self.names = names
        self.process = subprocess.Popen(["unshare", "-n", "sh", "-c", f"echo; exec sleep {seconds}"],
                                        stdout=subprocess.PIPE)
        self.process.stdout.readline()
        self.inside = ["nsenter", "-t", str(self.process.pid), "-n"]

    def __enter__(self):
        ip("link", "set", "lo", "up")
        for place, name in enumerate(self.names):
            ip("link", "add", name, "type", "veth", "peer", "name", "there")
            ip("link", "set", "there", "netns", str(self.process.pid))
            ip("link", "set", "there", "name", name, inside=self.inside)
            ip("address", "add", f"10.83.{place}.1/24", "dev", name)
            ip("address", "add", f"10.83.{place}.2/24", "dev", name, inside=self.inside)
            ip("link", "set", name, "up")
            self.set(name, "up")
        return self

    def set(self, name, state):
        """Takes our peer's end of a link up or down: this end loses its carrier with it."""
        ip("link", "set", name, state, inside=self.inside)

    def swallow(self, number, both=True):
        """From now on link `number` loses what goes into it here, or at both ends, and nobody is told: frames have an
        address that is nobody's."""
        for inside, end in (([], 2), (self.inside, 1))[:1 + both]:
            ip("neighbour", "replace", f"10.83.{number}.{end}", "lladdr", "02:00:00:00:00:01", "nud", "permanent",
               "dev", self.names[number], inside=inside)

    def pass_on(self, number):
        for inside, end in (([], 2), (self.inside, 1)):
            subprocess.run([*inside, "ip", "neighbour", "del", f"10.83.{number}.{end}", "dev", self.names[number]],
                           check=False, stderr=subprocess.DEVNULL)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def run_alone(main, what):
    """In a network of our own; elsewhere the test is skipped."""
    if INSIDE in os.environ:
        main()
    elif not have_own():
        print(f"SKIPPED: {what} NOT tested: no network of our own to be had here")
        sys.exit(77)
    else:
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "-rn", sys.executable, *sys.argv])
