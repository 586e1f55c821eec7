#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of a real Slurm of two hosts, which are network namespaces with a link between them. Its daemons see
processes and mounts of their own, and all end with this test.
Usage: slurm_test.py MEET_PLAIN FAULT_FOLDER [NAMES]"""
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, sys.argv[2])
from links import INSIDE, Other, ip  # noqa: E402

MEET = os.path.abspath(sys.argv[1])
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
PYTHON = "/usr/bin/python3"  # Debian's PyTorch is for this one
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "salloc", "sinfo", "unshare", "nsenter", "ip", "mount")
ALONE = ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]
DEADLINE = 120
FOLDER = None  # of the cluster
# Hosts write into folders of their own: TmpFS is where PMIx has its files. All waits of Slurm are long.
CONFIG = """ClusterName=test
SlurmctldHost=here
AuthInfo=socket={0}/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={0}/state
SlurmdSpoolDir={0}/spool-%n
TmpFS={0}/tmp-%n
SlurmctldPidFile={0}/slurmctld.pid
SlurmdPidFile={0}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
MessageTimeout=100
SlurmdTimeout=300
SlurmdParameters=config_overrides
NodeName=here,there CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def skip(why):
    print(f"SKIPPED: {why}; meeting under a real Slurm was NOT tested")
    sys.exit(77)


def environment():
    """Without what another launcher, or a Slurm in which this runs, may have set."""
    odd = re.compile("TUTTI_|NCCL_|SLURM|PMI|OMPI_|RANK$|WORLD_SIZE$|MASTER_")
    return {name: value for name, value in os.environ.items() if not odd.match(name)} | {
        "SLURM_CONF": f"{FOLDER}/slurm.conf", "TUTTI_SOCKET_IFNAME": "v0",
        "PYTHONPATH": f"{ROOT}/bindings/python", "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}


def run(*words, within=DEADLINE):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=within,
                          env=environment(), stdin=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout


def write(name, text):
    with open(os.path.join(FOLDER, name), "w", encoding="ascii") as file:
        file.write(text)
    os.chmod(os.path.join(FOLDER, name), 0o600)


def start(name, *words):
    with open(f"{FOLDER}/{name}.out", "w", encoding="utf-8") as log:
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment())


def end_all():
    """Daemons write to the folder until they end. Here are no processes but those of this test, whose first this is."""
    assert os.getpid() == 1  # or others' processes would end
    os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def give_up(why):
    for name in sorted(os.listdir(FOLDER)):
        if name.endswith(".out"):
            with open(f"{FOLDER}/{name}", encoding="utf-8", errors="replace") as file:
                print(f"-- {name}", *file.readlines()[-10:], sep="\n")
    skip(why)


def wait_for(condition, what):
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            give_up(what)
        time.sleep(0.05)


def both_idle():
    code, out = run("sinfo", "--noheader", "--Node", "--format=%T")
    return code == 0 and out.split() == ["idle", "idle"]


def start_cluster(there):
    for folder in ("state", "spool-here", "spool-there", "tmp-here", "tmp-there"):
        os.mkdir(os.path.join(FOLDER, folder))
    write("slurm.conf", CONFIG.format(FOLDER))
    write("key", os.urandom(500).hex())
    write("hosts", "127.0.0.1 localhost\n10.83.0.1 here\n10.83.0.2 there\n")
    os.chmod(f"{FOLDER}/hosts", 0o644)
    subprocess.run(["mount", "--bind", f"{FOLDER}/hosts", "/etc/hosts"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", "/dev/shm"], check=True)
    socket.sethostname("here")
    start("munged", "munged", "--foreground", "--force", f"--socket={FOLDER}/munge", f"--key-file={FOLDER}/key",
          f"--pid-file={FOLDER}/munged.pid", f"--seed-file={FOLDER}/seed", "--num-threads=10")
    wait_for(lambda: os.path.exists(f"{FOLDER}/munge"), "munged does not start here")
    start("slurmctld", "slurmctld", "-D")
    start("slurmd-here", "slurmd", "-D", "-N", "here")
    start("slurmd-there", *there, "unshare", "--uts", "sh", "-c", "hostname there && exec slurmd -D -N there")
    wait_for(both_idle, "Slurm's daemons do not start here")


class Jobs(unittest.TestCase):
    def expect_met(self, out, kind="Slurm", ranks=4, local=r"[0-3] of [1-4]"):
        for rank in range(ranks):
            self.assertRegex(out, rf"(?m)met by {kind}: rank {rank} of {ranks}, local {local}$")

    def test_ranks_of_two_hosts_meet(self):
        for way in ("none", "pmi2", "pmix"):
            with self.subTest(mpi=way):
                if way not in run("srun", "--mpi=list")[1]:
                    self.skipTest(f"this Slurm does not offer {way}")
                code, out = run("srun", f"--mpi={way}", "-N", "2", "-n", "4", "--ntasks-per-node=2", MEET)
                self.assertEqual(code, 0, out)
                if way == "pmi2":  # whose ranks do not learn how many of them are on their host
                    self.expect_met(out, "PMI", local="[01] of (2|-1)")
                else:
                    self.expect_met(out, local="[01] of 2")

    def test_hosts_with_different_numbers_of_ranks(self):
        code, out = run("srun", "-n", "4", "--distribution=arbitrary", "--nodelist=here,there,there,there", MEET)
        self.assertEqual(code, 0, out)
        self.expect_met(out)
        self.assertIn("rank 0 of 4, local 0 of 1\n", out)
        self.assertIn("rank 3 of 4, local 2 of 3\n", out)

    def test_one_host(self):
        code, out = run("srun", "-N", "1", "-n", "4", MEET)
        self.assertEqual(code, 0, out)
        self.expect_met(out, local="[0-3] of 4")

    def test_steps_of_a_job_side_by_side(self):
        step = f"srun --overlap -N 2 -n 4 {MEET}"
        code, out = run("salloc", "-N", "2", "-n", "4", "sh", "-c", f"{step} & {step} & wait %1 && wait %2")
        self.assertEqual(code, 0, out)
        self.assertEqual(len(re.findall(r"met by Slurm: rank [0-3] of 4", out)), 8, out)

    @unittest.skipUnless(os.environ.get("LD_LIBRARY_PATH"), "the library is not at hand")
    def test_python(self):
        program = ("import array, sys, tutti\n"
                   "with tutti.init() as comm:\n"
                   "    mine = array.array('d', [comm.rank + 1.0])\n"
                   "    comm.allreduce(mine)\n"
                   "    sys.stdout.write(f'rank {comm.rank} has {mine[0]}\\n')")
        code, out = run("srun", "-N", "2", "-n", "4", sys.executable, "-c", program)
        self.assertEqual(code, 0, out)
        said = sorted(line for line in out.splitlines() if line.startswith("rank"))  # srun has words of its own
        self.assertEqual(said, [f"rank {rank} has 10.0" for rank in range(4)], out)

    @unittest.skipUnless(os.environ.get("LD_LIBRARY_PATH"), "the library is not at hand")
    def test_pytorch(self):
        if run(PYTHON, "-c", "import torch")[0] != 0:
            self.skipTest("no PyTorch here: NOT tested")
        code, out = run("srun", "-N", "2", "-n", "2", PYTHON, f"{ROOT}/examples/ddp/train.py", "--steps", "1")
        self.assertEqual(code, 0, out)
        self.assertRegex(out, "step 1: loss [0-9.]+\nddp over tutti, 2 ranks")

    @unittest.skipUnless(os.environ.get("LD_LIBRARY_PATH"), "the library is not at hand")
    @unittest.skipUnless(os.environ.get("TUTTI_TEST_FULL") == "1", "TUTTI_TEST_FULL=1 trains for half a minute")
    def test_elastic_example(self):
        """A process of a step is killed, the steps of other units go on, and a step that waited replaces it."""
        if run(PYTHON, "-c", "import torch")[0] != 0:
            self.skipTest("no PyTorch here: NOT tested")
        code, out = run("salloc", "-N", "2", "--ntasks-per-node=4", PYTHON, f"{ROOT}/examples/elastic/elastic.py",
                        "--quick", "--by", "srun", "--folder", FOLDER, within=4 * DEADLINE)
        self.assertEqual(code, 0, out)
        self.assertRegex(out, r"the unit is killed; step \d+ counts with 1 units in generation 1")
        self.assertRegex(out, r"from step \d+ on 2 units count, in generation 2")

    @unittest.skipUnless(shutil.which("sbatch") and shutil.which("scontrol"), "no sbatch or scontrol")
    def test_hook_drains_and_requeues(self):
        """examples/recovery: no more jobs for the host of a rank that stands still, and the job waits to begin anew."""
        code, job = run("sbatch", "--parsable", "--requeue", "--output=/dev/null", "--wrap", "sleep 600")
        self.assertEqual(code, 0, job)
        job = job.strip()
        wait_for(lambda: f"{job} RUNNING here\n" in run("squeue", "-h", "-o", "%i %T %N")[1], "the job does not start")
        code, out = run("env", f"TUTTI_HOOK_JOB={job}", "TUTTI_HOOK_ACT=1", "TUTTI_VERDICT_KIND=stopped",
                        "TUTTI_VERDICT_HOST=here", "TUTTI_VERDICT_RANK=2", f"{ROOT}/examples/recovery/hooks/slurm.sh")
        self.assertEqual(code, 0, out)
        node, restarts = run("scontrol", "show", "node", "here")[1], run("scontrol", "show", "job", job)[1]
        self.assertRegex(node, r"State=\S*DRAIN")
        self.assertIn("Reason=tutti: stopped, rank 2", node)
        self.assertIn("Restarts=1 ", restarts)
        run("scancel", job)
        run("scontrol", "update", "NodeName=here", "State=RESUME")
        wait_for(both_idle, "the hosts are not idle again")


def main():
    global FOLDER
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing:
        skip(f"not installed: {' '.join(missing)}")
    if os.geteuid() != 0:
        skip("Slurm's daemons must be root's")
    if INSIDE not in os.environ:
        if subprocess.run([*ALONE, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            skip("no namespaces to be had here")
        os.environ[INSIDE] = "1"
        os.execvp("unshare", [*ALONE, sys.executable, *sys.argv])
    with tempfile.TemporaryDirectory() as FOLDER, Other(["v0"]) as other:
        os.chmod(FOLDER, 0o755)
        ip("link", "set", "lo", "up", inside=other.inside)
        try:
            start_cluster(other.inside)
            unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
        finally:
            end_all()


if __name__ == "__main__":
    main()
