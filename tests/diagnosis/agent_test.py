#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tutti agent beside a real job, and a master that records what comes and answers as it is told.

    agent_test.py TUTTI FAULTY
"""
import http.server
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks"))
from held_port import hold_port  # noqa: E402

TUTTI, FAULTY = sys.argv.pop(1), sys.argv.pop(1)
TOKEN = "0123456789abcdef0123456789abcdef"


def answers(status):
    """To a bundle of one report, as control/report/report.proto has it."""
    answer = bytes([8, status & 127 | 128, status >> 7])
    return bytes([10, len(answer)]) + answer


class Recorder(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        if server.closed:
            self.close_connection = True
            return
        status = server.answers.pop(0) if server.answers else 200
        server.reports.append((time.monotonic(), body, self.headers, status))
        text = b"no\n\x1b[31msuch thing" if status not in (200, 428) else answers(status)
        self.send_response(200 if status == 428 else status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Master(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port=0, answers=()):
        super().__init__(("127.0.0.1", port), Recorder)
        self.reports, self.answers, self.closed = [], list(answers), False
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def wait(self, count, seconds=30):
        end = time.monotonic() + seconds
        while len(self.reports) < count:
            if time.monotonic() > end:
                raise AssertionError(f"{len(self.reports)} reports, want {count}")
            time.sleep(0.01)
        return self.reports[count - 1]

    def close(self):
        self.closed = True  # connections that are open see it
        self.shutdown()
        self.server_close()


class Flaky:
    """A master that takes connections: drops them at once, never answers, says nonsense, or says that it is broken."""

    def __init__(self, how):
        self.how, self.tries, self.open = how, 0, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.tries += 1
            if self.how == "drops":
                connection.close()
                continue
            self.open.append(connection)
            if self.how != "is silent":
                answer = b"\0\xffnonsense\r\n\r\n" if self.how == "raves" else \
                    b"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                connection.recv(1 << 20)
                connection.sendall(answer)

    def close(self):
        for connection in (self.listener, *self.open):
            connection.close()


class AgentTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tutti-agent-")
        self.token = os.path.join(self.folder, "token")
        with open(self.token, "w", encoding="ascii") as file:
            file.write(TOKEN + "\n")
        self.processes, self.masters = [], []

    def tearDown(self):
        for process in self.processes:
            process.kill()
            process.wait()
        for master in self.masters:
            master.close()
        shutil.rmtree(self.folder)

    def master(self, port=0, answers=()):
        self.masters.append(Master(port, answers))
        return self.masters[-1]

    def job(self, ranks, fault="none", culprit=-1):
        held, port = hold_port()
        ranks = [subprocess.Popen(
            [FAULTY, fault, str(culprit), "2"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=dict(os.environ, TUTTI_RANK=str(rank), TUTTI_SIZE=str(ranks), TUTTI_LOCAL_RANK=str(rank),
                     TUTTI_LOCAL_SIZE=str(ranks), TUTTI_ID=f"127.0.0.1:{port}", TUTTI_NONCE="%032x" % port,
                     TUTTI_TRACE_DIR=self.folder, TUTTI_TIMEOUT="300s")) for rank in range(ranks)]
        self.processes += ranks
        for rank in ranks:
            self.assertEqual(rank.stdout.readline(), "at 2\n")
            rank.stdout.close()
        held.close()
        return ranks

    def command(self, port, *options):
        return [TUTTI, "agent", "--master", f"http://127.0.0.1:{port}", "--token", self.token, "--host", "node-a",
                "--dir", self.folder, *options]

    def once(self, port, *options):
        return subprocess.run(self.command(port, "--once", *options), capture_output=True, text=True, timeout=60)

    def agent(self, port):
        agent = subprocess.Popen(self.command(port), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(agent)
        return agent

    def end(self, agent):
        agent.send_signal(signal.SIGTERM)
        out, err = agent.communicate(timeout=20)
        self.assertEqual(agent.returncode, 0, err)
        return out, err

    def test_once(self):
        ranks = self.job(2)
        master = self.master()
        done = self.once(master.server_port)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout,
                         f"Reporting to http://127.0.0.1:{master.server_port}: 2 processes of host node-a\n")
        _, body, headers, _ = master.wait(1)
        self.assertEqual(headers["Authorization"], f"Bearer {TOKEN}")
        self.assertIn(b"node-a", body)
        self.assertIn(b"world", body)
        self.assertEqual(len(ranks), body.count(b"faulty none"))

    def test_refusals(self):
        port = self.master(answers=[401]).server_port
        done = self.once(port)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"http://127.0.0.1:{port}/bundle: the master refuses (401): no  [31msuch thing\n", done.stderr)
        done = self.once(1)
        self.assertEqual(done.returncode, 1)
        self.assertIn("tutti agent: http://127.0.0.1:1/bundle: Failed to connect", done.stderr)
        done = self.once(port, "--dir", "/nonexistent")
        self.assertIn("looking for black boxes in /nonexistent", done.stderr)
        for options, sentence in ((("--master", "http://192.0.2.1:1"), "would travel in the clear"),
                                  (("--master", "ftp://host"), "want https://HOST"),
                                  (("--token", "/nonexistent"), "reading the token in /nonexistent"),
                                  (("--ca", "/nonexistent"), "")):
            done = self.once(port, *options)
            self.assertEqual(done.returncode, 1 if sentence else 0, options)
            self.assertIn(sentence, done.stderr)
        for options in (("--host", "a b"), ("--nonsense",), ("word",), ("--master",)):
            self.assertEqual(self.once(port, *options).returncode, 2, options)
        self.assertEqual(subprocess.run([TUTTI, "agent"], capture_output=True).returncode, 2)

    def test_changes_and_alarm(self):
        """A master that knows nothing gets everything, at once; then what has changed; of a death it hears at once. The
        next report of each second would be later than that each time, not only when the machine stands still."""
        ranks = self.job(3, "hang", 0)
        time.sleep(1)
        master = self.master(answers=3 * [200, 200, 428])
        agent = self.agent(master.server_port)
        first, second, third, fourth = (len(master.wait(n)[1]) for n in (1, 2, 3, 4))
        self.assertGreater(first, 2 * second)
        self.assertGreater(first, 2 * third)
        self.assertGreater(fourth, 2 * third)
        master.wait(10)
        self.assertLess(min(master.reports[n + 1][0] - master.reports[n][0] for n in (2, 5, 8)), 0.9)
        heard = []
        while not heard or (min(heard) >= 0.9 and len(heard) < 9):
            for rank in (ranks[1], ranks[2], ranks[0]):
                master.wait(len(master.reports) + 3)
                begun, count = time.monotonic(), len(master.reports)
                rank.kill()
                heard.append(master.wait(count + 1)[0] - begun)
            ranks = self.job(3, "hang", 0) if min(heard) >= 0.9 else ranks
        self.assertLess(min(heard), 0.9)
        out, err = self.end(agent)
        self.assertEqual(err, "")
        self.assertEqual(out.count("\n"), 1)

    def test_masters_come_and_go(self):
        self.job(2)
        held, port = hold_port()
        self.addCleanup(held.close)
        first = self.master(port)
        agent = self.agent(port)
        first.wait(2)
        first.close()
        self.masters.remove(first)
        time.sleep(2)
        second = self.master(port, [503, 200])
        second.wait(3)
        self.assertGreater(len(second.reports[1][1]), 1000)  # whole
        out, err = self.end(agent)
        self.assertIn("Reporting again to", out)
        self.assertIn("(503)", err)
        self.assertLess(err.count("\n"), 4)

    def test_cost(self):
        """Generous here, as other tests run beside: docs/operate/master.md has what was measured."""
        self.job(4)
        master = self.master()
        agent = self.agent(master.server_port)
        master.wait(2)
        before, begun = self.used(agent), time.monotonic()
        time.sleep(3)
        part = (self.used(agent) - before) / (time.monotonic() - begun)
        with open(f"/proc/{agent.pid}/status", encoding="ascii") as file:
            peak = int(next(line for line in file if line.startswith("VmHWM")).split()[1])
        print(f"4 ranks: {100 * part:.2f} % of a core, {peak} KiB, {len(master.reports[-1][1])} bytes a report")
        self.assertLess(part, 0.1)
        self.assertLess(peak, 64 << 10)

    def test_flaky_masters(self):
        """C4's table 3: agents that try again and again starve the job. These try less and less often; the job gets on,
        and nobody in it is blamed."""
        self.job(2)
        self.masters += [Flaky(how) for how in ("drops", "is silent", "raves", "is broken")]
        agents = [self.agent(master.port) for master in self.masters] + [self.agent(1)]
        time.sleep(12)
        for agent in agents:
            used = self.used(agent)
            print(f"{100 * used / 12:.2f} % of a core")
            self.assertLess(used, 1.2)
        for master in self.masters:
            # after 0, 1, 3, 7 s
            self.assertTrue(1 <= master.tries <= 6, f"one that {master.how}: {master.tries} tries")
        command, end = [TUTTI, "diagnose", "--dir", self.folder], time.monotonic() + 60
        while (found := subprocess.run(command, capture_output=True, text=True, timeout=60)).returncode:
            self.assertLess(time.monotonic(), end, found.stdout)
            time.sleep(1)  # other tests may take the processors for a moment, and boxes remember it for another
        for agent in agents:
            _, err = self.end(agent)
            self.assertLessEqual(err.count("\n"), 3, err)

    @staticmethod
    def used(process):
        with open(f"/proc/{process.pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[0]) / 1e9


if __name__ == "__main__":
    unittest.main(verbosity=2)
