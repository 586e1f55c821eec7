#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tutti simulate and tutti hostfile from outside. Usage: commands_test.py TUTTI SOURCE_ROOT"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

TUTTI = ROOT = ""
EMULATOR = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))  # of a build for another processor
FABRICS = "examples/fabric"


def tutti(command, *args, **env):
    """Exit status, standard output, standard error of the program that `tutti COMMAND` runs."""
    program = os.path.join(os.path.dirname(TUTTI), "tutti-" + command)
    done = subprocess.run([*EMULATOR, program, *args], capture_output=True, text=True, timeout=100, cwd=ROOT,
                          env={**os.environ, **env}, check=False)
    return done.returncode, done.stdout, done.stderr


def simulate(*args):
    code, out, said = tutti("simulate", *args)
    assert code == 0, said
    return out


def time_of(answer, scale, algorithm, order, way, size=0):
    row = next(r for r in answer["scales"][scale]["rows"] if (r["algorithm"], r["order"]) == (algorithm, order))
    return row["paths"][way]["times"][size]["us"]


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tutti-fabric-")
        self.addCleanup(self.folder.cleanup)

    def file(self, name, text=None):
        path = os.path.join(self.folder.name, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path


class Simulate(Files):
    @unittest.skipIf(EMULATOR, "an emulated process cannot start another program")
    def test_as_a_command(self):
        done = subprocess.run([TUTTI, "simulate", "--help"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0)
        self.assertIn("tutti simulate FABRIC", done.stdout)

    def test_table(self):
        text = simulate(f"{FABRICS}/unequal.yaml", "-b", "64K,1M", "-a", "ring,tree")
        self.assertIn("fabric unequal: 12 GPUs on 6 hosts, 7 NICs with 11 ports, 3 leaves, 2 spines", text)
        self.assertIn("1 uplinks down", text)
        self.assertEqual(len(re.findall(r"^  ring ", text, re.M)), 2)
        self.assertIn("*", text)

    def test_json(self):
        answer = json.loads(simulate(f"{FABRICS}/pod.yaml", "-n", "64,512", "-b", "64K,256M", "--json",
                                     "-a", "halving,two-level,doubling"))
        self.assertEqual([(s["gpus"], s["hosts"]) for s in answer["scales"]], [(64, 8), (512, 64)])
        self.assertEqual(answer["scales"][1]["neighbours"]["host"], 448)
        for scale in answer["scales"]:
            for row in scale["rows"]:
                self.assertEqual(set(row["paths"]), {"ecmp", "steered", "allocated"})
                for way in row["paths"].values():
                    self.assertLess(way["times"][0]["us"], way["times"][1]["us"])
        self.assertLess(time_of(answer, 1, "halving", "nearest", "allocated", 1),
                        time_of(answer, 1, "halving", "farthest", "allocated", 1))
        self.assertLess(time_of(answer, 1, "halving", "farthest", "allocated", 1),
                        0.8 * time_of(answer, 1, "halving", "farthest", "ecmp", 1))

    def test_the_same_seed_says_the_same(self):
        args = (f"{FABRICS}/pod.yaml", "-n", "128", "-b", "16M", "-a", "halving", "--fail", "3", "--json", "--seed")
        self.assertEqual(simulate(*args, "4"), simulate(*args, "4"))
        self.assertNotEqual(simulate(*args, "4"), simulate(*args, "5"))

    def test_131072_gpus(self):
        answer = json.loads(simulate(f"{FABRICS}/campus.yaml", "-n", "512,131072", "-b", "1M", "-a", "two-level",
                                     "-l", "1", "-p", "steered", "--json"))
        large = answer["scales"][1]
        self.assertEqual(large["neighbours"]["campus"], 2)
        self.assertEqual(large["rows"][0]["rounds"], 2 * (16384 - 1) + 2)
        self.assertGreater(time_of(answer, 1, "two-level", "-", "steered"), 16383 * 2 * 5)

    def test_rules_are_read(self):
        rules = self.file("rules.json")
        text = simulate(f"{FABRICS}/pod.yaml", "-n", "16,64", "-b", "1K,64M", "--rules", rules, "-p", "allocated")
        self.assertIn("rules are in", text)
        with open(rules, encoding="utf-8") as file:
            made = json.load(file)
        self.assertIn("simulated on the fabric pod", made["comment"])
        self.assertEqual({(r["min_ranks"], r.get("max_ranks")) for r in made["rules"]}, {(2, 63), (64, None)})
        if not EMULATOR:
            done = subprocess.run([TUTTI, "perf", "allreduce", "-np", "2", "-b", "8", "-e", "8"], capture_output=True,
                                  text=True, env={**os.environ, "TUTTI_TUNE_FILE": rules}, check=False, timeout=100)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_picture(self):
        picture = self.file("times.svg")
        simulate(f"{FABRICS}/unequal.yaml", "--svg", picture)
        lines = xml.dom.minidom.parse(picture).getElementsByTagName("polyline")
        self.assertGreater(len(lines), 9)
        self.assertTrue(all(len(line.getAttribute("points").split()) == 4 for line in lines))

    def test_a_job_is_judged(self):
        hosts = self.file("hosts", "".join(f"h{h}\n" for pair in zip(range(16), range(16, 32)) for h in pair))
        text = simulate(f"{FABRICS}/pod.yaml", "--hosts", hosts, "-a", "ring", "-b", "64M", "-p", "ecmp")
        self.assertIn("allreduce, 256 GPUs on 32 hosts", text)
        self.assertIn("after 32 of 32 comes one of another leaf; sorted by the fabric after 2", text)

    def test_refusals(self):
        for args, words in (
                ((), "want one FABRIC"), (("x.yaml", "-c", "allgoth"), "--collective allgoth"),
                (("x.yaml", "-b", "1M,1K"), "sizes that grow"),
                (("x.yaml", "-p", "luck"), "ecmp, steered or allocated"),
                (("x.yaml", "-a", "rong"), "allreduce has direct"),
                (("x.yaml", "--orders", "any"), "nearest, farthest"),
                ((f"{FABRICS}/pod.yaml", "-n", "513"), "from 2 to the fabric's 512"),
                ((f"{FABRICS}/pod.yaml", "--fail", "512"), "the fabric has 512 uplinks"),
                (("x.yaml", "--json", "--rules", "x"), "do not go together")):
            code, _, said = tutti("simulate", *args)
            self.assertEqual(code, 2, args)
            self.assertIn(words, said)
        wrong = self.file("wrong.yaml", "name: x\nrate: 1gbit\nclos: {racks: many}\n")
        code, _, said = tutti("simulate", wrong)
        self.assertEqual(code, 1)
        self.assertIn(f"{wrong}:3:15: racks: \"many\" is not a whole number", said)
        code, _, said = tutti("simulate", f"{FABRICS}/pod.yaml", "--hosts", self.file("hosts", "h1\nh99\n"))
        self.assertEqual(code, 1)
        self.assertIn(":2: host: the fabric pod has no \"h99\"", said)


class Hostfile(Files):
    def sort(self, text, *options, fabric="unequal"):
        return tutti("hostfile", "sort", f"{FABRICS}/{fabric}.yaml", self.file("hosts", text), *options)

    def test_lines_stay_as_they_are(self):
        lines = ["node05 slots=2\n", "node01:2 # a\n", "node06.cluster slots=2\n", "  node02 slots=2\n"]
        code, out, said = self.sort("# hosts\n" + "".join(lines))
        self.assertEqual((code, out), (0, "".join(lines[i] for i in (1, 3, 0, 2))))
        self.assertIn("4 lines; neighbours with different leaves: 4 before, 2 after", said)

    def test_slurm_has_a_line_for_each_task(self):
        code, out, said = self.sort("node05\nnode05\nnode01\nnode01\nnode06\n")
        self.assertEqual((code, out), (0, "node01\nnode01\nnode05\nnode05\nnode06\n"))
        self.assertIn("2 before, 2 after", said)

    def test_torchrun(self):
        code, out, _ = self.sort("node05\nnode01\n", "--format", "torchrun")
        self.assertEqual((code, out), (0, "node01 --nnodes=2 --node-rank=0 --master-addr=node01\n"
                                          "node05 --nnodes=2 --node-rank=1 --master-addr=node01\n"))

    def test_groups_are_met_or_refused(self):
        hosts = "".join(f"h{h}\n" for h in (0, 16, 1, 17, 2, 18, 3, 19))  # racks of 16
        code, out, _ = self.sort(hosts, "--groups", "2:rack,4:rack,8:zone", fabric="pod")
        self.assertEqual((code, out), (0, "".join(f"h{h}\n" for h in (0, 1, 2, 3, 16, 17, 18, 19))))
        for groups, words in (("3:rack", "groups of 3 within a rack: l0 has 4 lines, so 1 are left over"),
                              ("2:rack,16:zone", "has 8 lines, so 8 are left over")):
            code, out, said = self.sort(hosts, "-g", groups, fabric="pod")
            self.assertEqual((code, out), (1, ""))
            self.assertIn(words, said)
        for groups in ("2", "2:room", "0:rack", "4:rack,2:zone", "2:zone,4:rack", "2:rack,", "2:rack 4:zone",
                       ",".join(["1:rack"] * 9)):
            code, out, said = self.sort(hosts, "-g", groups, fabric="pod")
            self.assertEqual((code, out), (1, ""), groups)
            self.assertIn("--groups: want SIZE:rack", said)

    def test_refusals(self):
        code, out, said = self.sort("node05\nnode77\n")
        self.assertEqual((code, out), (1, ""))
        self.assertIn(":2: host: the fabric unequal has no \"node77\"", said)
        code, _, said = tutti("hostfile", "shuffle", "a", "b")
        self.assertEqual(code, 2)
        self.assertIn("want sort, a FABRIC and a HOSTFILE", said)


if __name__ == "__main__":
    TUTTI, ROOT = os.path.abspath(sys.argv[1]), sys.argv[2]
    unittest.main(argv=sys.argv[:1])
