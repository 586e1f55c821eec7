#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tutti master with two agents, each beside two ranks of a real job: the culprit is named, the hook runs,
strangers and liars are refused.

    master_test.py TUTTI FAULTY
"""
import glob
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

from hosts import TOKEN, TUTTI, HostsTest

NAMED = 60  # seconds until the culprit of a hang is named: on a machine that has time, 10


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class MasterTest(HostsTest):
    def hangs(self, verdicts):
        """On a crowded machine something is slow, too."""
        return [verdict for verdict in verdicts if verdict["class"].endswith("hang")]

    def heard_of(self, *hosts):
        """What the master knows, once none of these hosts is silent: an agent may have had no processor for a while."""
        end = time.monotonic() + NAMED
        while True:
            state = json.loads(self.page("/verdicts"))
            if sorted(host["name"] for host in state["hosts"] if not host["silent"]) == sorted(hosts):
                return state
            self.assertLess(time.monotonic(), end, state)
            time.sleep(0.1)

    def test_stopped(self):
        """Over TLS: no hang while all is well, then the culprit, the hook, the pages and the history;
        at last it is over."""
        if not shutil.which("openssl"):
            self.skipTest("no openssl to make a certificate with")
        self.make_certificate()
        hook = (f'echo "$TUTTI_VERDICT_KIND $TUTTI_VERDICT_RANK $TUTTI_VERDICT_HOST $TUTTI_VERDICT_PID" '
                f'>{self.path("hooked-$TUTTI_VERDICT_KIND")}; cat >{self.path("json-$TUTTI_VERDICT_KIND")}; exit 3')
        master = self.start_all("--hook", hook, "--act", "--history", self.path("history"))
        listener = self.start_listener("a")
        time.sleep(2)
        self.assertEqual(self.hangs(json.loads(self.page("/verdicts"))["verdicts"]), [])
        pid = self.ranks[2].pid
        self.ranks[2].send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        number, sentence = master.wait(r"verdict (\d+) begins\nVERDICT: (rank 2 .* is stopped .*)\n", NAMED).groups()
        print(f"named after {time.monotonic() - begun:.1f} s: {sentence}")
        self.assertRegex(sentence, rf"^rank 2 .*\(process {pid}( on b|; ).* is stopped and is waited for by ")
        master.wait(f"hook of verdict {number}: exit status 3\n")
        with open(self.path("hooked-stopped"), encoding="ascii") as file:
            self.assertEqual(file.read(), f"stopped 2 b {pid}\n")
        with open(self.path("json-stopped"), encoding="ascii") as file:
            self.assertEqual(json.load(file)["text"], sentence)
        state = self.heard_of("a", "b")
        self.assertEqual([(v["kind"], v["confidence"], v["host"], v["pid"], v["number"])
                          for v in self.hangs(state["verdicts"])], [("stopped", "certain", "b", pid, int(number))])
        self.assertLess(max(abs(h["clock_ahead_seconds"]) for h in state["hosts"]), 1)
        self.assertIn(f'tutti_verdict_standing{{number="{number}",kind="stopped",confidence="certain",host="b",'
                      'rank="2"} 1\n', self.page("/metrics"))
        self.assertTrue(self.page("/metrics").endswith("# EOF\n"))
        # the wait that it is told by may be another one by now
        self.assertRegex(self.page("/"), rf"VERDICT: rank 2 .*\(process {pid}( on b|; ).* is stopped and is waited for")
        self.assertRegex(self.page("/network"), r"^NETWORK: job world\S*, 4 ranks on 2 hosts: ")
        self.ranks[2].send_signal(signal.SIGCONT)
        master.wait(rf"verdict {number} is over, after ")
        told = re.escape(sentence[:300])
        listener.wait(rf"verdict of rank 2, process {pid}: verdict {number}: {told}")
        listener.wait(rf"end of rank 2, process {pid}: verdict {number} is over, after .*: rank 2 ")
        history = self.hangs(json.loads(self.page("/history")))
        self.assertEqual([(v["kind"], v["hook"]) for v in history], [("stopped", "exit status 3")])
        self.assertGreater(history[0]["ended"], history[0]["began"])
        self.assertEqual(master.text.count(" hang: "), 1, master.text)
        self.assertEqual((master.end(), self.agents["a"].end()), (0, 0))

    def test_killed(self):
        """A death is an alarm, and the web hook hears of it. Those who leave because of it,
        as their output is closed, are not blamed."""
        server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
        server.bodies = []
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        master = self.start_all("--webhook", f"http://127.0.0.1:{server.server_port}/", "--act")
        time.sleep(1)
        self.ranks[1].kill()
        begun = time.monotonic()
        number, sentence = master.wait(r"verdict (\d+) begins\nVERDICT: (rank 1 .* ended without a word.*)\n",
                                       NAMED).groups()
        print(f"named after {time.monotonic() - begun:.1f} s: {sentence}")
        self.assertRegex(sentence, rf"^rank 1 .*process {self.ranks[1].pid}.*, dead.* ended without a word")
        master.wait(f"hook of verdict {number}: answered 204\n")
        self.assertIn("dead", [json.loads(body)["kind"] for body in server.bodies])
        server.shutdown()
        server.server_close()
        time.sleep(1.5)
        self.assertEqual(master.text.count(" hang: "), 1, master.text)

    def test_masters_come_and_go(self):
        """Without --act nothing is run. A new master at the same place hears everything,
        and names who was stopped before it came."""
        master = self.start_all("--stuck", "1s", "--hook", f"touch {self.path('ran')}",
                                "--webhook", "http://127.0.0.1:1/", "--sure", "certain")
        self.ranks[0].send_signal(signal.SIGSTOP)
        number = master.wait(r"verdict (\d+) begins\nVERDICT: rank 0 .* is stopped", NAMED).group(1)
        master.wait(rf"hook of verdict {number}: dry run, --act would run: touch {self.path('ran')}\n")
        master.wait(rf"hook of verdict {number}: dry run, --act would post to: http://127.0.0.1:1/\n")
        self.assertFalse(os.path.exists(self.path("ran")))
        master.process.kill()
        master.process.wait()
        again = self.start(TUTTI, "master", "--token", self.token, "--listen", f"127.0.0.1:{self.port}",
                           "--stuck", "1s")
        again.wait("VERDICT: rank 0 .* is stopped")

    # ---- Strangers and liars

    def forge_box(self):
        """A box of another version, under a name that nobody has."""
        source = glob.glob(self.path("a/*.box"))[0]
        with open(source, "rb") as file:
            data = bytearray(file.read(8192))
        data[8] += 1
        with open(self.path(f"a/tutti-{os.geteuid()}-4000001-1.box"), "wb") as file:
            file.write(data)

    def cut_short(self):
        """A body that ends before its end."""
        with socket.create_connection(("127.0.0.1", self.port)) as stranger:
            stranger.sendall(f"POST /report HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: "
                             "5000\r\n\r\nabc".encode())

    def test_hostile(self):
        self.start_job()
        master = self.start_master()
        self.forge_box()
        agents = {host: self.start_agent(host) for host in "ab"}
        agents["a"].wait(r"reading the black box .*4000001-1.box: version \d+, want \d+; use the tutti that wrote it")
        for token in (None, "x", TOKEN + "0", TOKEN[:-1] + "x"):
            for url, method in (("/", "GET"), ("/verdicts", "GET"), ("/report", "POST"), ("/nothing", "GET")):
                status, text = self.ask(url, method, b"x" if method == "POST" else None, token)
                self.assertEqual((status, text),
                                 (401, "This wants the token of the job: Authorization: Bearer TOKEN\n"))
        self.cut_short()
        forged = b"\x08\x01\x12\x01a\x19" + b"\x07" * 8 + b"\x20\x01"  # host "a", another agent
        for status, sentence, method, url, body in (
                (404, "There are /, /page, /verdicts", "GET", "/nothing", None),
                (404, "Reports go to /report", "POST", "/", b""),
                (405, "Only GET", "PUT", "/report", b"x"),
                (400, "no report: it is cut short", "POST", "/report", b"\x12\xffgarbage"),
                (400, "a report of version 0, want 1", "POST", "/report", b""),
                (400, "a report of version 2, want 1", "POST", "/report", b"\x08\x02\x12\x01a"),
                (400, "whose name is none", "POST", "/report", b"\x08\x01\x12\x03a b"),
                (400, "no report", "POST", "/report", os.urandom(100000)),
                (409, "another agent calls its host a", "POST", "/report", forged)):
            answer = self.ask(url, method, body)
            self.assertEqual(answer[0], status, (method, url, answer))
            self.assertIn(sentence, answer[1])
        self.assertEqual(self.ask("/report", "POST", iter([b"x" * (1 << 20)] * 33),
                                  **{"Transfer-Encoding": "chunked"})[0], 413)
        self.too_large()
        end = time.monotonic() + NAMED
        while "1 black boxes cannot be read\n" not in (text := self.page("/")) and time.monotonic() < end:
            time.sleep(0.1)  # the report that says so is on its way
        self.assertRegex(text, r"\na  .* 1 black boxes cannot be read\n")
        self.assertRegex(self.page("/metrics"), r"tutti_master_refusals_total 2\d\n")
        self.assertNotIn(" hang: ", master.text)  # a rank may be slow for a while where processors are few
        self.assertEqual((master.end(), agents["a"].end(), agents["b"].end()), (0, 0, 0))

    def too_large(self):
        """Refused by its head alone."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as stranger:
            stranger.sendall(f"POST /report HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: "
                             "99999999999\r\n\r\n".encode())
            self.assertIn(b" 413 ", stranger.recv(4096))

    def test_wrong_options(self):
        def run(*options):
            done = subprocess.run([TUTTI, "master", *options], capture_output=True, text=True, timeout=20)
            return done.returncode, done.stderr
        taken = socket.create_server(("127.0.0.1", 0))
        with open(self.path("nonsense"), "w", encoding="ascii") as file:
            file.write("nonsense\n")
        token, nonsense = ("--token", self.token), self.path("nonsense")
        for options, code, sentence in (
                ((), 2, "--token is needed"), ((*token, "word"), 2, "takes no arguments"),
                ((*token, "--stuck", "x"), 2, "--stuck wants a time"),
                ((*token, "--sure", "x"), 2, "--sure wants certain"), ((*token, "--key", "x"), 2, "go together"),
                (("--nonsense",), 2, "there is no option --nonsense"), (("--token", nonsense), 1, "is no token"),
                ((*token, "--listen", "0.0.0.0:0"), 1, "would travel in the clear"),
                ((*token, "--listen", "nonsense"), 1, "--listen"),
                ((*token, "--history", "/nonexistent/file"), 1, "opening the history"),
                ((*token, "--certificate", "/nonexistent", "--key", nonsense), 1, "reading /nonexistent"),
                ((*token, "--listen", "127.0.0.1:0", "--certificate", nonsense, "--key", nonsense),
                 1, "cannot serve at"),
                ((*token, "--listen", "127.0.0.1:%d" % taken.getsockname()[1]), 1, "Address already in use")):
            answer = run(*options)
            self.assertEqual(answer[0], code, (options, answer))
            self.assertIn(sentence, answer[1])
        taken.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
