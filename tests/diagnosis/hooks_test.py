#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The hooks of examples/recovery: what they run, for which verdicts, and that they run nothing unless they are told to.
Stand-ins for kubectl, scontrol and ssh write down how they were called; where kubectl is installed, the real one runs,
too, and asks a small server that has nodes and pods, but is no cluster. tests/launch/slurm_test.py has a real scontrol.

    hooks_test.py
"""
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

import kubernetes

HOOKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "recovery", "hooks")
NEW_START = ("stopped", "dead", "behind", "still", "failed", "absent", "ahead", "unread")
SLOW = ("slow", "starved", "sender", "receiver", "interface")
NOTHING = ("mismatch", "order", "circle", "joining", "traced", "link", "outside")
CORDON = ["kubectl", "cordon", "node7"]
DELETE = ["kubectl", "delete", "pods", "--selector=job-name=train", "--field-selector=spec.nodeName=node7",
          "--grace-period=5", "--wait=false"]
DRAIN = ["scontrol", "update", "NodeName=node7", "State=DRAIN"]
REQUEUE = ["scontrol", "requeue", "41"]
SAY = '''#!/bin/sh
{ printf "%s" "${0##*/}"; for word; do printf "\\t%s" "$word"; done; echo; } >>"$CALLS"
exit ${STATUS-0}
'''


class HooksTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tutti-hooks-")
        self.calls = os.path.join(self.folder, "calls")
        for name in ("kubectl", "scontrol", "ssh"):
            with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
                file.write(SAY)
            os.chmod(os.path.join(self.folder, name), 0o755)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def run_hook(self, hook, kind, path=None, **more):
        """Exit status, output, and the calls that were made."""
        env = {"PATH": path or f"{self.folder}:{os.environ['PATH']}", "CALLS": self.calls, "TUTTI_HOOK_ACT": "1",
               "TUTTI_VERDICT": "rank 2 $(touch bad) is to blame", "TUTTI_VERDICT_KIND": kind,
               "TUTTI_VERDICT_CONFIDENCE": "certain", "TUTTI_VERDICT_HOST": "node7", "TUTTI_VERDICT_PID": "4000001",
               "TUTTI_VERDICT_RANK": "2", "TUTTI_HOOK_SELECTOR": "job-name=train", "TUTTI_HOOK_JOB": "41", **more}
        env = {name: value for name, value in env.items() if value is not None}
        done = subprocess.run([os.path.join(HOOKS, hook)], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=60, cwd=self.folder)
        calls = []
        if os.path.exists(self.calls):
            with open(self.calls, encoding="utf-8") as file:
                calls = [line.rstrip("\n").split("\t") for line in file]
            os.remove(self.calls)
        return done.returncode, done.stdout, calls

    def expect(self, hook, kind, calls, **more):
        code, out, made = self.run_hook(hook, kind, **more)
        self.assertEqual((code, made), (0, calls), (kind, out))
        return out

    def test_kubernetes(self):
        for kind in NEW_START:
            self.expect("kubernetes.sh", kind, [CORDON, DELETE])
        for kind in SLOW:
            self.expect("kubernetes.sh", kind, [CORDON])
        for kind in NOTHING:
            self.assertIn("nothing is done", self.expect("kubernetes.sh", kind, []))
        self.expect("kubernetes.sh", "dead", [CORDON, DELETE[:3] + ["--namespace=ml"] + DELETE[3:]],
                    TUTTI_HOOK_NAMESPACE="ml")

    def test_slurm(self):
        for kind in NEW_START:
            self.expect("slurm.sh", kind, [DRAIN + [f"Reason=tutti: {kind}, rank 2"], REQUEUE])
        for kind in SLOW:
            self.expect("slurm.sh", kind, [DRAIN + [f"Reason=tutti: {kind}, rank 2"]])
        for kind in NOTHING:
            self.expect("slurm.sh", kind, [])
        self.expect("slurm.sh", "dead", [DRAIN + ["Reason=tutti: dead, rank unknown"], REQUEUE[:2] + ["17"]],
                    TUTTI_HOOK_JOB=None, SLURM_JOB_ID="17", TUTTI_VERDICT_RANK="")

    def test_kill(self):
        """A process elsewhere by ssh, one of this host itself; not the dead, the slow, or what is none."""
        self.expect("kill.sh", "stopped", [["ssh", "-o", "BatchMode=yes", "--", "node7", "kill", "-KILL", "4000001"]])
        for kind in SLOW + NOTHING + ("dead",):
            self.assertIn("not" if kind in SLOW else "nothing is done", self.expect("kill.sh", kind, []))
        for pid in ("", "0", "1", "-1", "7; touch bad"):
            code, out, calls = self.run_hook("kill.sh", "stopped", TUTTI_VERDICT_PID=pid)
            self.assertEqual((code, calls), (1, []), out)
        victim = subprocess.Popen(["sleep", "600"])
        try:
            here = {"TUTTI_VERDICT_PID": str(victim.pid), "TUTTI_VERDICT_HOST": os.uname().nodename}
            self.expect("kill.sh", "stopped", [], TUTTI_HOOK_ACT="0", **here)
            self.assertIsNone(victim.poll())
            self.expect("kill.sh", "stopped", [], **here)
            self.assertEqual(victim.wait(60), -signal.SIGKILL)
        finally:
            victim.kill()
            victim.wait()

    def test_dry(self):
        """By default they say what they would run."""
        for hook, calls in (("kubernetes.sh", [CORDON, DELETE]),
                            ("slurm.sh", [[*DRAIN, "Reason=tutti: stopped, rank 2"], REQUEUE])):
            for act in (None, "0", "yes"):
                out = self.expect(hook, "stopped", [], TUTTI_HOOK_ACT=act)
                self.assertEqual(out, "".join(f"would run: {' '.join(words)}\n" for words in calls))

    def test_refused(self):
        for hook, more, sentence in (("kubernetes.sh", {"TUTTI_HOOK_SELECTOR": None}, "which pods"),
                                     ("slurm.sh", {"TUTTI_HOOK_JOB": None}, "which job"),
                                     ("slurm.sh", {"TUTTI_HOOK_JOB": "all"}, "which job")):
            code, out, calls = self.run_hook(hook, "stopped", **more)
            self.assertEqual((code, calls), (1, []))
            self.assertIn(sentence, out)
        for hook in ("kubernetes.sh", "slurm.sh", "kill.sh"):
            self.assertIn("names no host", self.expect(hook, "stopped", [], TUTTI_VERDICT_HOST=""))
            self.assertEqual(self.run_hook(hook, "")[0], 1)
            self.assertFalse(os.path.exists(os.path.join(self.folder, "bad")))

    def test_failure_is_told(self):
        """Pods are not deleted where the node still takes new ones."""
        code, out, calls = self.run_hook("kubernetes.sh", "stopped", STATUS="3")
        self.assertEqual((code, calls), (3, [CORDON]), out)
        code, out, calls = self.run_hook("slurm.sh", "stopped", STATUS="3")
        self.assertEqual((code, len(calls)), (3, 1), out)

    def hook_at(self, cluster, kind, **more):
        """Exit status and output of the hook with the real kubectl."""
        config = os.path.join(self.folder, "config")
        with open(config, "w", encoding="ascii") as file:
            file.write("apiVersion: v1\nkind: Config\n"
                       f"clusters: [{{name: small, cluster: {{server: '{cluster.url}'}}}}]\n"
                       "contexts: [{name: small, context: {cluster: small}}]\ncurrent-context: small\n")
        code, out, calls = self.run_hook("kubernetes.sh", kind, os.environ["PATH"], KUBECONFIG=config, HOME=self.folder,
                                         **more)
        self.assertEqual(calls, [])  # of the stand-in
        return code, out

    def cluster(self, **more):
        """Two nodes, and on each a pod of the job; others, of which one has the job's label elsewhere."""
        made = kubernetes.Cluster(("node7", "node8"), (
            kubernetes.pod("train-0", "node7", job_name="train"), kubernetes.pod("train-1", "node8", job_name="train"),
            kubernetes.pod("other-0", "node7", job_name="other"),
            kubernetes.pod("train-2", "node7", "ml", job_name="train")), **more)
        self.addCleanup(made.close)
        return made

    @unittest.skipUnless(shutil.which("kubectl"), "kubectl is not installed: the hook was NOT tried with it")
    def test_real_kubectl(self):
        """No new pods on the node, and the job's pods there go, with a short grace: no others."""
        cluster = self.cluster()
        self.assertEqual(self.hook_at(cluster, "stopped", TUTTI_HOOK_ACT="0")[0], 0)
        self.assertEqual((cluster.cordoned(), cluster.deleted), ([], []))
        code, out = self.hook_at(cluster, "stopped")
        self.assertEqual(code, 0, out)
        self.assertEqual((cluster.cordoned(), cluster.deleted), (["node7"], [("default", "train-0", 5)]), out)
        code, out = self.hook_at(cluster, "stopped", TUTTI_HOOK_NAMESPACE="ml")  # the node is cordoned already
        self.assertEqual(code, 0, out)
        self.assertEqual(cluster.deleted[1:], [("ml", "train-2", 5)], out)
        code, out = self.hook_at(cluster, "slow", TUTTI_VERDICT_HOST="node8")
        self.assertEqual(code, 0, out)
        self.assertEqual((cluster.cordoned(), cluster.names()), (["node7", "node8"], ["other-0", "train-1"]), out)

    @unittest.skipUnless(shutil.which("kubectl"), "kubectl is not installed: its refusals were NOT tried")
    def test_real_kubectl_is_refused(self):
        """A node that is none: nothing is deleted. A pod that may not be deleted: the hook fails."""
        cluster = self.cluster(protected=("train-0",))
        code, out = self.hook_at(cluster, "stopped", TUTTI_VERDICT_HOST="node9")
        self.assertNotEqual(code, 0, out)
        self.assertIn('nodes "node9"', out)
        self.assertEqual((cluster.cordoned(), cluster.deleted), ([], []))
        code, out = self.hook_at(cluster, "stopped")
        self.assertNotEqual(code, 0, out)
        self.assertIn('pods "train-0"', out)
        self.assertEqual((cluster.cordoned(), cluster.deleted), (["node7"], []))


if __name__ == "__main__":
    unittest.main(verbosity=2)
