#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The hooks of examples/recovery: what they run, for which verdicts, and that they run nothing unless they are told to.
Stand-ins for kubectl, scontrol and ssh write down how they were called; where kubectl is installed, the real one
reads the options, too. tests/launch/slurm_test.py has a real scontrol.

    hooks_test.py
"""
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import unittest

HOOKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "recovery", "hooks")
NEW_START = ("stopped", "dead", "behind", "still", "failed", "absent", "ahead", "unread")
SLOW = ("slow", "starved", "sender", "receiver", "interface")
NOTHING = ("mismatch", "order", "circle", "joining", "traced", "link")
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

    @unittest.skipUnless(shutil.which("kubectl"), "kubectl is not installed: its options were NOT tried")
    def test_options_of_the_real_kubectl(self):
        """No cluster answers; that is all that it has to say."""
        config = os.path.join(self.folder, "config")
        with open(config, "w", encoding="ascii") as file:
            file.write("apiVersion: v1\nkind: Config\n"
                       "clusters: [{name: none, cluster: {server: 'http://127.0.0.1:1'}}]\n"
                       "contexts: [{name: none, context: {cluster: none}}]\ncurrent-context: none\n")
        for words in (CORDON, DELETE, DELETE[:3] + ["--namespace=ml"] + DELETE[3:]):
            done = subprocess.run(words, env={"PATH": os.environ["PATH"], "KUBECONFIG": config, "HOME": self.folder},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("127.0.0.1:1 was refused", done.stdout, shlex.join(words))


if __name__ == "__main__":
    unittest.main(verbosity=2)
