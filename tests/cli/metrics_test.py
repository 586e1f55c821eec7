#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tutti export over a running job, read by Prometheus' own programs where they are.
Usage: metrics_test.py TUTTI SOURCE_ROOT FAULTY"""
import contextlib
import http.client
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks"))
from held_port import hold_port  # noqa: E402

TUTTI = ""
ROOT = ""
FAULTY = ""
EMULATOR = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))  # of a build for another processor
DEADLINE = 60
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def tutti(*args, **more):
    done = subprocess.run([*EMULATOR, TUTTI, *args], capture_output=True, text=True, timeout=DEADLINE, **more)
    return done.returncode, done.stdout, done.stderr


def wait_for(condition):
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    return None


def examples(name):
    return os.path.join(ROOT, "examples", "metrics", name)


class Job(unittest.TestCase):
    """Ranks that reduce until they are killed; their boxes lie in a folder of their own."""

    RANKS, PROGRAM, TRANSPORT = "2", "tutti", "tcp"

    @classmethod
    def command(cls):
        # One call at a time: of a rank that runs ahead by 256 calls the box remembers only unfinished ones.
        return TUTTI, "perf", "allreduce", "-b", "64K", "-e", "64K", "-n", "100000000", "-c", "0", "-z", "1"

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tutti-metrics-")
        cls.env = {**os.environ, "TUTTI_TRACE_DIR": cls.folder, "TUTTI_TRANSPORT": cls.TRANSPORT,
                   "TUTTI_PROBE_AFTER": "50ms", "TUTTI_PROBE_TIMEOUT": "60s"}
        cls.job = subprocess.Popen(
            [*EMULATOR, TUTTI, "run", "-n", cls.RANKS, "--", *EMULATOR, *cls.command()], env=cls.env,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.running = wait_for(
            lambda: (cls.value(f'tutti_operations_total{{program="{cls.PROGRAM}",rank="1",slot="0"}}') or 0) > 10)

    @classmethod
    def tearDownClass(cls):
        cls.job.terminate()
        cls.job.wait(DEADLINE)
        shutil.rmtree(cls.folder)

    @classmethod
    def once(cls, *args):
        code, out, err = tutti("export", "--once", *args, env=cls.env)
        if code or err:
            raise AssertionError(f"exit status {code}: {err}")
        return out

    @classmethod
    def value(cls, series):
        found = re.search("^" + re.escape(series) + " (.*)$", cls.once(), re.M)
        return float(found.group(1)) if found else None

    def setUp(self):
        self.assertTrue(self.running, "the job does not run")

    @staticmethod
    def read(path):
        with open(path, encoding="utf-8") as file:
            return file.read()


class Once(Job):
    def test_values(self):
        series = 'tutti_sent_bytes_total{program="tutti",rank="0",slot="0",transport="tcp"}'
        before = self.value(series)
        self.assertTrue(wait_for(lambda: self.value(series) > before))
        self.assertEqual(self.value('tutti_processes{state="alive"}'), 2)
        self.assertEqual(self.value('tutti_processes{state="dead"}'), 0)
        self.assertEqual(len(re.findall(r'^tutti_build_info\{version="\d+\.\d+\.\d+"\} 1$', self.once(), re.M)), 1)
        count = 'program="tutti",rank="0",slot="0",collective="allreduce",size="64KiB"'
        self.assertTrue(wait_for(lambda: (self.value(f"tutti_operation_seconds_count{{{count}}}") or 0) > 10))
        self.histogram(self.once())
        of_lanes = r'\{program="tutti",rank="0",slot="0",interface="\w+"'
        timed = f"^tutti_lane_messages_timed_total{of_lanes}\\}} [1-9]"
        self.assertTrue(wait_for(lambda: re.search(timed, self.once(), re.M)))
        self.assertRegex(self.once(), f'tutti_lane_longest_message_seconds{of_lanes},span="1h"\\}} \\d')
        self.assertRegex(self.once(), f"tutti_lane_windows_slow_total{of_lanes}\\}} \\d")
        self.assertGreaterEqual(self.value('tutti_communicators_open{program="tutti",rank="0",slot="0"}'), 1)

    def histogram(self, text):
        """Of the allreduces of 64 KiB: buckets that grow up to the count, and as many bytes."""
        labels = 'program="tutti",rank="0",slot="0",collective="allreduce",size="64KiB"'
        buckets = re.findall("^tutti_operation_seconds_bucket{" + labels + ',le="(.*?)"} (.*)$', text, re.M)
        found = {name: float(value) for name, value in re.findall(
            "^tutti_operation_(seconds_sum|seconds_count|bytes_total){" + labels + "} (.*)$", text, re.M)}
        counts = [int(count) for _, count in buckets]
        self.assertEqual((len(buckets), buckets[-1][0]), (12, "+Inf"))
        self.assertEqual(counts, sorted(counts))
        self.assertTrue(10 < counts[-1] == found["seconds_count"])
        self.assertEqual(found["bytes_total"], 65536 * counts[-1])
        self.assertLess(0, found["seconds_sum"])

    def test_probes_are_no_events(self):
        """Lanes that nobody uses are asked whether they live, and answer: that is counted, and is no event."""
        series = 'tutti_probes_total{program="tutti",rank="0",slot="0"}'
        self.assertTrue(wait_for(lambda: self.value(series) > 3))
        _, out, _ = tutti("trace", "--all-ops", "--json", env=self.env)
        self.assertIn("lane_up", out)
        self.assertNotRegex(out, '"probe(_answer)?"')

    def test_help_can_be_read_alone(self):
        """Each metric says what it is of, in more than a few words."""
        for name, text in re.findall(r"^# HELP (\w+) (.*)$", self.once(), re.M):
            self.assertGreater(len(text.split()), 3, name)
            self.assertNotRegex(text, r"^(Their|Its|What|Time that this operation|Since when)\b", name)

    def test_openmetrics_parser(self):
        try:
            from prometheus_client.openmetrics import parser
        except ImportError:
            self.skipTest("python3-prometheus-client is not installed")
        families = {family.name: family for family in parser.text_string_to_metric_families(self.once())}
        self.assertEqual(families["tutti_operations"].type, "counter")
        self.assertEqual(families["tutti_sent_bytes"].unit, "bytes")
        self.assertEqual(families["tutti_process"].type, "info")
        for family in families.values():
            names = [set(sample.labels) for sample in family.samples]
            allowed = {"program", "rank", "slot", "transport", "way", "collective", "where", "purpose",
                       "interface", "span", "cause", "state", "class", "size", "le", "kind", "version"}
            if family.name == "tutti_process":
                allowed |= {"pid", "library"}
            self.assertLessEqual(set().union(*names), allowed, family.name)

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
    def test_promtool_check_metrics(self):
        done = subprocess.run(["promtool", "check", "metrics"], input=self.once("--format", "text"), text=True,
                              capture_output=True, timeout=DEADLINE)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_dashboard_and_alerts_name_what_is_exported(self):
        exported = set(re.findall(r"^# TYPE (\w+)", self.once("--format", "text"), re.M))
        series = exported | {"tutti_operation_seconds_" + part for part in ("bucket", "sum", "count")}
        with open(examples("dashboard.json"), encoding="utf-8") as file:
            board = json.load(file)
        queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
        shown = set(re.findall(r"tutti_\w+", " ".join(queries)))
        self.assertLessEqual({"tutti_shared_bytes_total", "tutti_holds_up_ratio", "tutti_finding"}, shown)
        with open(examples("alerts.yml"), encoding="utf-8") as file:
            queries += re.findall(r"expr: (.*)", file.read())
        self.assertGreater(len(queries), 15)
        # what is best for the rank that all others wait for
        self.assertFalse([name for name in exported if re.search("latest|bandwidth", name)])
        for query in queries:
            names = set(re.findall(r"tutti_\w+", query))
            self.assertTrue(names)
            self.assertLessEqual(names, series, query)
        with open(os.path.join(ROOT, "docs", "operate", "metrics.md"), encoding="utf-8") as file:
            explained = set(re.findall(r"`(tutti_\w+)`", file.read()))
        explained = {name for name in explained if not name.endswith("_total")}
        self.assertEqual(explained, {name for name in exported if not name.endswith("_total")})

    def test_stopped_rank(self):
        with tempfile.TemporaryDirectory(prefix="tutti-metrics-") as folder:
            env = {**self.env, "TUTTI_TRACE_DIR": folder}
            job = subprocess.Popen(
                [*EMULATOR, TUTTI, "run", "-n", "2", "--", "sh", "-c",
                 f"echo $$ >{folder}/pid$RANK; exec {shlex.join([*EMULATOR, TUTTI])} perf allreduce -b 64K -e 64K "
                 "-n 100000000 -c 0"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                def export():
                    return tutti("export", "--once", "--stuck", "100ms", env=env)[1]
                self.assertTrue(wait_for(lambda: re.search(r'operations_total\{.*rank="1".*\} [1-9]', export())))
                os.kill(int(self.read(f"{folder}/pid1")), signal.SIGSTOP)
                self.assertTrue(wait_for(lambda: re.search(r'findings\{class="other hang"\} [1-9]', export())),
                                export())
                self.assertRegex(export(), r'peer_wait_seconds\{program="tutti",rank="0",slot="0"\} [0-9.]*[1-9]')
            finally:
                job.kill()
                job.wait(DEADLINE)


class Serving(Job):
    def serve(self, *args):
        server = subprocess.Popen([*EMULATOR, TUTTI, "export", "--listen", "127.0.0.1:0", *args], env=self.env,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(server.stderr.close)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait, DEADLINE)
        self.addCleanup(server.terminate)
        found = re.fullmatch(r"Metrics are served at http://127\.0\.0\.1:([0-9]+)/metrics\n", server.stdout.readline())
        if not found:
            error = server.stderr.read()
            if "without libmicrohttpd" in error:
                self.skipTest("this build has no libmicrohttpd")
            self.fail(error)
        return server, int(found.group(1))

    def ask(self, port, method, path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, answer.getheader("Content-Type"), body


class Served(Serving):
    def test_both_forms(self):
        server, port = self.serve()
        status, kind, body = self.ask(port, "GET", "/metrics", Accept=OPENMETRICS)
        self.assertEqual((status, kind.split(";")[0]), (200, "application/openmetrics-text"))
        self.assertTrue(body.endswith("# EOF\n"))
        self.assertIn('tutti_operations_total{program="tutti",rank="0",slot="0"} ', body)
        status, kind, body = self.ask(port, "GET", "/metrics")
        self.assertEqual((status, kind.split(";")[0]), (200, "text/plain"))
        self.assertIn("# TYPE tutti_operations_total counter\n", body)
        self.assertNotIn("# EOF", body)
        self.assertEqual(self.ask(port, "GET", "/")[0], 200)
        self.assertEqual(self.ask(port, "GET", "/healthz")[::2], (200, "ok\n"))
        self.assertEqual(self.ask(port, "GET", "/other")[0], 404)
        self.assertEqual(self.ask(port, "POST", "/metrics")[0], 405)
        server.terminate()
        self.assertEqual((server.wait(DEADLINE), server.stderr.read()), (0, ""))

    def test_boxes_that_are_gone(self):
        with tempfile.TemporaryDirectory() as folder:
            _, port = self.serve("--dir", os.path.join(folder, "none"))
            self.assertEqual(self.ask(port, "GET", "/metrics")[0], 500)
            self.assertEqual(self.ask(port, "GET", "/healthz")[0], 503)

    def test_looks_between_scrapes(self):
        """A box remembers 256 operations of a communicator; more than that are counted while somebody scrapes."""
        _, port = self.serve()

        def counted():
            body = self.ask(port, "GET", "/metrics")[2]
            return sum(int(count) for count in re.findall(
                r'^tutti_operation_seconds_count\{program="tutti",rank="0",.* (\d+)$', body, re.M))
        series = 'tutti_operations_total{program="tutti",rank="0",slot="0"}'
        before, called = counted(), self.value(series)
        time.sleep(2.5)
        self.assertTrue(wait_for(lambda: self.value(series) > called + 700))
        self.assertGreater(counted() - before, 300)

    @unittest.skipIf(EMULATOR, "what the emulator reads counts, too")
    def test_the_dead_are_read_once(self):
        """Hundreds of boxes that dead processes left cost a scrape next to nothing,
        and are forgotten with their files."""
        with tempfile.TemporaryDirectory() as folder:
            killed = subprocess.Popen([TUTTI, "perf", "allreduce", "-n", "1000000000", "-b", "8", "-e", "8", "-c", "0"],
                                      env={**os.environ, "TUTTI_TRACE_DIR": folder}, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)
            box = wait_for(lambda: os.listdir(folder))[0]
            wait_for(lambda: "allreduce" in tutti("trace", "--json", "--dir", folder)[1])
            killed.kill()
            killed.wait(DEADLINE)
            for number in range(300):  # the name says whose it is, and no process has such a number
                os.link(os.path.join(folder, box),
                        os.path.join(folder, f"tutti-{os.geteuid()}-{5000000 + number}-1.box"))
            with open(f"{folder}/tutti-{os.geteuid()}-6000000-1.box", "wb") as file:
                file.write(b"no box" + b"\xff" * 10000)
            server, port = self.serve("--dir", folder)

            def scrape():
                before = self.bytes_read(server.pid)
                status, _, body = self.ask(port, "GET", "/metrics")
                self.assertEqual(status, 200)
                self.assertIn('tutti_processes{state="alive"} 0\n', body)
                self.assertNotIn('rank="', body)  # what they did last is not what they do
                self.assertIn("\ntutti_boxes_unreadable 1\n", body)
                return self.bytes_read(server.pid) - before

            self.assertGreater(scrape(), 300 * 1000)
            for _ in range(2):
                self.assertLess(scrape(), 10000)
            os.rename(os.path.join(folder, f"tutti-{os.geteuid()}-5000000-1.box"),
                      f"{folder}/tutti-{os.geteuid()}-7000000-1.box")
            self.assertGreater(scrape(), 1000)
            self.assertLess(scrape(), 10000)

    @staticmethod
    def bytes_read(pid):
        with open(f"/proc/{pid}/io", encoding="utf-8") as file:
            return int(re.search(r"^rchar: (\d+)", file.read(), re.M).group(1))

    def test_port_in_use(self):
        _, port = self.serve()
        code, out, err = tutti("export", "--listen", f"127.0.0.1:{port}")
        self.assertEqual((code, out), (1, ""))
        self.assertIn(f"cannot serve at 127.0.0.1:{port}: Address already in use", err)


class WithPrometheus(Serving):

    @contextlib.contextmanager
    def prometheus(self, port):
        """Its address."""
        held, own = hold_port()
        with held, tempfile.TemporaryDirectory() as folder:
            with open(examples("prometheus.yml"), encoding="utf-8") as file:
                config = file.read().replace("127.0.0.1:9797", f"127.0.0.1:{port}").replace("15s", "1s")
            shutil.copy(examples("alerts.yml"), folder)
            with open(os.path.join(folder, "prometheus.yml"), "w", encoding="utf-8") as file:
                file.write(config)
            server = subprocess.Popen(
                ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address=127.0.0.1:{own}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                yield f"http://127.0.0.1:{own}"
            finally:
                server.terminate()
                server.wait(DEADLINE)

    @staticmethod
    def query(url, text):
        try:
            with urllib.request.urlopen(f"{url}/api/v1/query?" + urllib.parse.urlencode({"query": text}),
                                        timeout=DEADLINE) as answer:
                return json.load(answer)["data"]["result"]
        except OSError:
            return []


@unittest.skipUnless(shutil.which("prometheus"), "prometheus is not installed")
class Slow(WithPrometheus):
    """Four ranks in shared memory, of which rank 2 sleeps between its calls: a real Prometheus has the culprit in its
    alert, in the panel, and traffic."""

    RANKS, PROGRAM, TRANSPORT = "4", "faulty", "shm"

    @classmethod
    def command(cls):
        return FAULTY, "slow", "2", "5"

    def test_culprit(self):
        _, port = self.serve()
        with self.prometheus(port) as url:
            # Another rank that has no processor for a while is slow, too, as long as that lasts.
            alert = 'ALERTS{alertname="TuttiSlow",alertstate="pending",kind="slow",program="faulty",rank="2"}'
            others = 'ALERTS{alertname="TuttiSlow",rank!="2"}'
            self.assertTrue(wait_for(lambda: self.query(url, alert) and not self.query(url, others)),
                            self.query(url, "tutti_finding"))
            # Most of all by far; on a busy machine the others do, too.
            first = "topk(1, tutti_holds_up_ratio) > 2 * scalar(bottomk(1, topk(2, tutti_holds_up_ratio)))"
            self.assertTrue(wait_for(lambda: [one["metric"]["rank"] for one in self.query(url, first)] == ["2"]),
                            self.query(url, "tutti_holds_up_ratio"))
            self.assertTrue(wait_for(lambda: len(self.query(url, "rate(tutti_shared_bytes_total[10s]) > 0")) == 4))
            # The others wait for it in their operations.
            least = "bottomk(1, sum by (rank) (tutti_operation_seconds_sum))"
            self.assertTrue(wait_for(lambda: [one["metric"]["rank"] for one in self.query(url, least)] == ["2"]))


@unittest.skipUnless(shutil.which("prometheus"), "prometheus is not installed")
class Scraped(WithPrometheus):
    """A real Prometheus, and the picture of what it has."""

    RANKS = "3"

    def panels(self, *args):
        done = subprocess.run([sys.executable, examples("panels.py"), *args], capture_output=True, text=True,
                              timeout=DEADLINE)
        return done.returncode, done.stdout + done.stderr

    def draw(self, url):
        """Each panel's part of the picture, by its title: Prometheus takes every query of the dashboard."""
        path = os.path.join(self.folder, "panels.svg")
        self.assertEqual(self.panels("--prometheus", url, "--minutes", "0.5", "--rate", "10s", "-o", path), (0, ""))
        parts = re.split(r"(?=<rect x=)", self.read(path))[1:]
        return {re.search(r'font-weight="bold">(.*?)</text>', part)[1]: part for part in parts}

    def test_prometheus_and_the_picture(self):
        _, port = self.serve()
        with self.prometheus(port) as url:
            self.assertTrue(wait_for(lambda: len(self.query(url, "rate(tutti_sent_bytes_total[10s]) > 0")) == 3))
            self.check_living(self.draw(url))
            self.check_refused(url)
            self.job.terminate()
            self.job.wait(DEADLINE)
            # Of an exporter that answers late Prometheus has nothing, either.
            self.assertTrue(wait_for(lambda: self.query(url, 'tutti_processes{state="alive"} == 0')
                                     and not self.query(url, "tutti_oldest_operation_seconds")))
            self.check_over(self.draw(url))

    def check_living(self, parts):
        with open(examples("dashboard.json"), encoding="utf-8") as file:
            self.assertEqual(list(parts), [panel["title"] for panel in json.load(file)["panels"]])
        self.assertIn(">3</text>", parts["Processes alive"])
        self.assertNotIn(">no data<", parts["Oldest unfinished operation"])
        # memory on GPUs, of which there are none; the latest operation has no measured end if nobody waited for a peer
        self.assertLessEqual(sum(">no data<" in part for part in parts.values()), 3)
        sent = parts["Sent on links"]
        for rank in range(3):
            for transport in ("shm", "tcp", "verbs"):
                self.assertIn(f">rank {rank} {transport}</text>", sent)
        lines = re.findall(r'<line [^>]*fill="none"([^>]*)/>', sent)
        self.assertEqual((len(lines), len(set(lines))), (9, 9), "a name for each curve, and no two look alike")
        self.assertEqual(set(re.findall(r'<polyline [^>]*fill="none"([^>]*)/>', sent)), set(lines))

    def check_over(self, parts):
        """What processes did last is not what they do."""
        self.assertIn(">0</text>", parts["Processes alive"])
        self.assertIn(">no data<", parts["Oldest unfinished operation"])
        self.assertIn("<polyline", parts["Sent on links"])

    def check_refused(self, url):
        code, said = self.panels("--prometheus", url, "--rate", "sometimes", "-o", "/dev/null")
        self.assertEqual(code, 1)
        self.assertIn("sometimes", said)
        self.assertEqual(self.panels("--prometheus", url, "-o", "/nonexistent/panels.svg"),
                         (1, "panels.py: cannot write /nonexistent/panels.svg: No such file or directory\n"))
        code, said = self.panels("--prometheus", "http://127.0.0.1:9", "-o", "/dev/null")
        self.assertEqual(code, 1)
        self.assertIn("panels.py: http://127.0.0.1:9: ", said)


class Files(unittest.TestCase):
    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
    def test_promtool_takes_the_rules(self):
        for command in (["check", "config", "prometheus.yml"], ["test", "rules", "alerts_test.yml"]):
            done = subprocess.run(["promtool", *command], cwd=examples(""), capture_output=True, text=True,
                                  timeout=DEADLINE)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_wrong_usage(self):
        for args in (["more"], ["--what"], ["--format", "text"], ["--once", "--format", "xml"], ["--stuck", "soon"],
                     ["--once", "--listen", "127.0.0.1:0"]):
            with self.subTest(args=args):
                code, out, err = tutti("export", *args)
                self.assertEqual((code, out), (2, ""))
                self.assertIn("tutti help export", err)

    def test_failures(self):
        code, _, err = tutti("export", "--once", "--dir", "/nonexistent/folder")
        self.assertEqual(code, 1)
        self.assertIn("/nonexistent/folder", err)
        with open("/dev/full", "w", encoding="utf-8") as full, tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([*EMULATOR, TUTTI, "export", "--once", "--dir", folder], stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("tutti export: cannot write the output: No space left on device", done.stderr)
        code, _, err = tutti("export", "--listen", "nowhere")
        self.assertEqual(code, 1)
        self.assertRegex(err, "--listen=nowhere is not an address|without libmicrohttpd")

    def test_damaged_box_is_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/tutti-{os.getuid()}-1-1.box", "wb") as file:
                file.write(b"TUTTIBOX" + b"\xff" * 10000)
            code, out, err = tutti("export", "--once", "--dir", folder)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("\ntutti_boxes_unreadable 1\n", out)


if __name__ == "__main__":
    TUTTI, ROOT, FAULTY = os.path.abspath(sys.argv[1]), sys.argv[2], os.path.abspath(sys.argv[3])
    del Job, Serving, WithPrometheus  # have no tests of their own
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
