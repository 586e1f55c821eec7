# SPDX-License-Identifier: Apache-2.0
"""try_rdma_test.py SOURCES BUILD: the commands of docs/use/rdma-laptop.md and docs/use/rdma.md, as they are written
there, each page in one shell.

Root, in namespaces of its own: no lab, black box or process of this machine is seen, and none is left. Programs are
where `make build` puts them. Of what a command is shown to print every line must come, whatever numbers and causes;
commands that only look are repeated until it does."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "install"))
import clean_root  # noqa: E402  (in the folder beside)

SOURCES, BUILD = map(os.path.abspath, sys.argv[1:3])
PAGE = "docs/use/rdma.md"
FIRST = "docs/use/rdma-laptop.md"
# Readers are slow enough.
# perftest compares clocks first, and gives up on a machine that is too busy for that.
UNMEASURED = "Correlation coefficient"
LISTENS = "timeout 60 sh -c 'until tutti-lab run h2 -- ss -Hltn | grep -q :18515; do sleep 0.05; done'"
PATIENCE = 60
CAUSE = "(network|sender late|receiver late|starved|other lanes|idle)"
SPACES = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
NOT_RUN = "make build"  # whoever runs this has built


def needs():
    """What is lacking here; "" if nothing is."""
    if os.geteuid():
        return "namespaces need root"
    missing = [name for name in ("unshare", "ip", "tc") if not shutil.which(name)]
    if missing:
        return f"there is no {missing[0]}"
    if subprocess.run([*SPACES, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        return "no namespaces can be made"
    return ""


def put_programs(folder, parts="runtime,extra"):
    """build/bin and build/lib as `make build` leaves them."""
    prefix = os.path.join(folder, "build")
    subprocess.run(["make", "-s", "-C", SOURCES, "put", f"PARTS={parts}", f"BUILD={BUILD}", f"PREFIX={prefix}"],
                   check=True)
    libraries = os.path.dirname(glob.glob(os.path.join(prefix, "lib*", "**", "softverbs"), recursive=True)[0])
    if libraries != os.path.join(prefix, "lib"):  # `make build` has no folder of the machine's kind
        for name in os.listdir(libraries):
            os.symlink(os.path.join(libraries, name), os.path.join(prefix, "lib", name))
    os.symlink(os.path.join(SOURCES, "examples"), os.path.join(folder, "examples"))


def pattern(line):
    """Of a shown line: any numbers, units, causes and times do."""
    line = re.sub(r"time: .*", "time:", line.strip())
    line = re.escape(re.sub(rf"(still|GB/s), {CAUSE}$", r"\1, CAUSE", line))
    line = re.sub(r"[\d.]*(\\\.)?\d[\d:.\\]*", r"[\\w.:/]+", line)
    line = re.sub(r"(\\ )+(us|ms|s)(\\ )+", r" +(us|ms|s) +", line)
    return re.compile(r"^\s*" + re.sub(r"(\\ )+", " +", line).replace("CAUSE", CAUSE))


class Shell:
    """One bash for all commands: exports and jobs hold."""

    def __init__(self, folder):
        self.process = subprocess.Popen(["bash"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)

    def run(self, command):
        """(status, lines)"""
        self.process.stdin.write(f"{command}\nprintf '\\n@@end %s\\n' $?\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            end = re.match(r"@@end (\d+)$", line)
            if end:
                return int(end[1]), lines
            lines.append(line.rstrip("\n"))
        raise AssertionError(f"the shell ended: {command}")


def run_shown(shell, command, expected):
    wanted = [pattern(line) for line in expected if line.strip() not in ("", "...")]
    end = time.monotonic() + PATIENCE
    while True:
        _, said = shell.run(command)
        lost = [one.pattern for one in wanted if not any(one.match(line) for line in said)]
        if not lost:
            return said
        assert time.monotonic() < end and re.match(r"tail|tutti trace", command), \
            "\n".join([f"{command}: no line like {lost[0]}", *said[-40:], *shell.run("tail -n 20 allreduce.log")[1]])
        time.sleep(0.2)


def rows(folder):
    """Fields of the rows of the log."""
    with open(os.path.join(folder, "allreduce.log"), encoding="utf-8") as file:
        return [line.split() for line in file if re.match(r"\[0\] +4194304 .*\n", line)]


def results_go_on(folder):
    """Two rows more, and none that has a wrong element."""
    before, end = len(rows(folder)), time.monotonic() + PATIENCE
    while len(rows(folder)) < before + 2:
        assert time.monotonic() < end, "the allreduce does not go on"
        time.sleep(0.1)
    assert all((row[9], row[13]) == ("0", "0") for row in rows(folder) if len(row) == 14), rows(folder)


def follow(page, folder):
    shell, running = Shell(folder), False
    for command, expected in page:
        if command == NOT_RUN:
            continue
        print(f"$ {command}", flush=True)
        if expected:
            print(*run_shown(shell, command, expected), sep="\n", flush=True)
        else:
            code, said = shell.run(command)
            assert code == 0, (command, code, said)
            print(*said, sep="\n", flush=True)
        running = command.endswith("&") or (running and not command.startswith("kill"))
        if running and "link" in command:
            results_go_on(folder)
    picture = xml.etree.ElementTree.parse(os.path.join(folder, "lanes.svg")).getroot()
    assert len(picture.findall("{http://www.w3.org/2000/svg}rect")) > 20
    assert shell.run("tutti-lab list") == (0, [""]), "a lab is left"
    _, said = shell.run("wait; ls /run/netns | wc -l; pgrep -c tutti")
    assert said[:2] == ["0", "0"], said


def follow_first(folder):
    """A server in the background, and its client, twice; every command ends well."""
    shell, server = Shell(folder), "true"
    _, page = clean_root.read_page(FIRST)
    assert len(page) > 6, page
    for command, expected in page:
        command = command.replace(f"{NOT_RUN} && ", "")
        print(f"$ {command}", flush=True)
        code, said = shell.run(command)
        while code and UNMEASURED in "\n".join(said):  # both ends have ended
            shell.run(server)
            shell.run(LISTENS)
            code, said = shell.run(command)
        assert code == 0, (command, code, said)
        server = command if command.endswith("&") else server
        wanted = [pattern(line) for line in expected or []]
        lost = [one.pattern for one in wanted if not any(one.match(line.replace("\t", "    ")) for line in said)]
        assert not lost, "\n".join([f"{command}: no line like {lost[0]}", *said[-40:]])
        if command.endswith("&"):
            shell.run(LISTENS)
    shell.process.stdin.close()
    shell.process.wait(timeout=PATIENCE)


def inside():
    for place in ("/run", "/dev/shm"):
        subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    _, page = clean_root.read_page(PAGE)
    assert len(page) > 15, page
    with tempfile.TemporaryDirectory() as folder:
        put_programs(folder)
        if shutil.which("ib_write_bw"):
            follow_first(folder)
        else:
            print(f"the commands of {FIRST} were not run: there is no ib_write_bw")
        follow(page, folder)


def main():
    if len(sys.argv) > 3:
        inside()
        return 0
    why = needs()
    if why:
        print(f"SKIPPED: the commands of {PAGE} were not run: {why}")
        return 77
    return subprocess.run([*SPACES, sys.executable, os.path.abspath(__file__), *sys.argv[1:], "inside"],
                          check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
