#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job of four ranks on two hosts, a and b, which are folders of black boxes; a master; and agents."""
import http.client
import os
import re
import shutil
import signal
import ssl
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


class Program:
    """A program, and what it has said."""

    def __init__(self, *words):
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.text = ""
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.text += line
        self.process.stdout.close()

    def wait(self, pattern, seconds=60):
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.text)):
            if time.monotonic() > end:
                raise AssertionError(f"\"{pattern}\" has not come in {seconds} s; so far:\n{self.text}")
            time.sleep(0.02)
        return found

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


class HostsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tutti-hosts-")
        self.token = self.path("token")
        with open(self.token, "w", encoding="ascii") as file:
            file.write(TOKEN + "\n")
        for host in "ab":
            os.mkdir(self.path(host))
        self.ranks, self.programs = [], []
        self.certificate = None
        self.settings = {}  # of the job's environment

    def tearDown(self):
        for program in self.programs:
            program.process.kill()
            program.process.wait()
        for rank in self.ranks:
            rank.kill()
            rank.wait()
        shutil.rmtree(self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *words):
        self.programs.append(Program(*words))
        return self.programs[-1]

    def hold_port(self):
        """Nobody else gets it before the test is over, also while no program of the test listens there."""
        held, port = hold_port()
        self.addCleanup(held.close)
        return port

    # ---- A job on two hosts

    def start_job(self, *words):
        held, port = hold_port()
        for rank in range(4):
            env = dict(os.environ, **self.settings, TUTTI_RANK=str(rank), TUTTI_SIZE="4", TUTTI_LOCAL_RANK=str(rank),
                       TUTTI_LOCAL_SIZE="4", TUTTI_TIMEOUT="300s", TUTTI_ID=f"127.0.0.1:{port}",
                       TUTTI_NONCE="%032x" % port, TUTTI_TRACE_DIR=self.path("ab"[rank // 2]))
            self.ranks.append(subprocess.Popen([FAULTY, *(words or ("none", "-1", "2"))], env=env,
                                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        for rank in self.ranks:
            self.assertEqual(rank.stdout.readline(), "at 2\n")
            rank.stdout.close()
        held.close()

    def start_listener(self, host):
        """A process there, which hears what the agent tells of the master's verdicts."""
        listener = self.start("env", f"TUTTI_TRACE_DIR={self.path(host)}", FAULTY, "listen")
        listener.wait("listens\n")
        return listener

    def make_certificate(self):
        self.certificate = self.path("cert.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-keyout", self.path("key.pem"), "-out", self.certificate, "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)

    def start_master(self, *options):
        tls = ("--certificate", self.certificate, "--key", self.path("key.pem")) if self.certificate else ()
        self.port = self.hold_port()
        master = self.start(TUTTI, "master", "--token", self.token, "--listen", f"127.0.0.1:{self.port}", *tls,
                            *options)
        self.url = master.wait(r"Agents report to (\S+)").group(1)
        return master

    def start_agent(self, host, *options):
        tls = ("--ca", self.certificate) if self.certificate else ()
        return self.start(TUTTI, "agent", "--master", self.url, "--token", self.token, "--host", host,
                          "--dir", self.path(host), *tls, *options)

    def start_all(self, *options, job=()):
        self.start_job(*job)
        master = self.start_master(*options)
        self.agents = {host: self.start_agent(host) for host in "ab"}
        for host in "ab":
            try:
                master.wait(f"host {host} reports: 2 processes\n", 150)
            except AssertionError as missed:
                raise AssertionError(f"{missed}\nits agent: {self.agents[host].text}") from missed
        return master

    # ---- Asking the master

    def ask(self, url, method="GET", body=None, token=TOKEN, **headers):
        if self.certificate:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60,
                                                     context=ssl.create_default_context(cafile=self.certificate))
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        connection.request(method, url, body, headers, encode_chunked="Transfer-Encoding" in headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def page(self, url):
        status, text = self.ask(url)
        self.assertEqual(status, 200, text)
        return text
