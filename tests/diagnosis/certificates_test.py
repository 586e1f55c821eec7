#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Certificates of both sides: agents and masters that know each other's authority speak;
others hear in one sentence why not.

    certificates_test.py TUTTI FAULTY
"""
import http.client
import os
import ssl
import subprocess
import time
import unittest

import authority
from hosts import TOKEN, TUTTI, HostsTest

LONG = 150  # seconds until what must happen has happened


@unittest.skipUnless(authority.program(), "no openssl to make certificates with")
class CertificatesTest(HostsTest):
    def setUp(self):
        super().setUp()
        self.authorities = authority.Authorities(self.folder)
        self.certify = self.authorities.certify

    def listen(self, *words):
        program = self.start(TUTTI, *words, "--token", self.token, "--listen", "127.0.0.1:0",
                             "--client-ca", self.path("ours.pem"))
        program.url = program.wait(r"Agents report to (https://\S+)", LONG).group(1)
        return program

    def agent(self, url, *options, host="a", ca="ours.pem"):
        return (TUTTI, "agent", "--master", url, "--token", self.token, "--host", host, "--dir", self.path("a"),
                "--ca", self.path(ca), *options)

    def once(self, url, *options, **named):
        """Where a greeting takes longer than an agent waits for it, again."""
        end = time.monotonic() + LONG
        while True:
            done = subprocess.run([*self.agent(url, *options, **named), "--once"], capture_output=True,
                                  text=True, timeout=LONG)
            if "connection timeout" not in done.stderr or time.monotonic() > end:
                return done.returncode, done.stderr

    def test_both_sides(self):
        master = self.listen("master", *self.certify("master"))
        good = self.certify("agent")
        self.assertEqual(self.once(master.url, *good), (0, ""))
        for options, sentence in (
                ((), "This wants a certificate of the one that comes, besides the token"),
                (self.certify("stranger", "theirs"), "The certificate was made by an authority that is not known here"),
                (self.certify("early", later=True), "The certificate is not valid yet: is the clock right?"),
                (self.certify("old", days=-1), "The certificate has expired")):
            code, text = self.once(master.url, *options)
            self.assertEqual((code, text.count("\n")), (1, 1), text)
            self.assertIn(f"the master refuses (403): {sentence}", text)
        self.assertIn("127.0.0.1 was refused, 1 times so far: This wants a certificate", master.text)
        code, text = self.once(master.url, *good, ca="theirs.pem")
        self.assertEqual((code, text.count("\n")), (1, 1), text)
        self.assertIn("certificate", text)
        for options in (("--certificate", "/nonexistent", "--key", self.path("agent.key")),
                        ("--certificate", self.path("agent.pem"), "--key", self.token)):
            code, text = self.once(master.url, *options)
            self.assertEqual((code, text.count("\n")), (1, 1), text)

    def read(self, url, *certificate):
        context = ssl.create_default_context(cafile=self.path("ours.pem"))
        if certificate:
            context.load_cert_chain(*certificate)
        connection = http.client.HTTPSConnection(url[len("https://"):], timeout=LONG, context=context)
        connection.request("GET", "/", headers={"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def test_over_an_agent(self):
        """Each shows its own to the next; who reads shows one, too."""
        master = self.listen("master", *self.certify("master"))
        row = self.listen(*self.agent(master.url, *self.certify("row"), host="row")[1:])
        self.start(*self.agent(row.url, *self.certify("leaf"))).wait("Reporting to https://", LONG)
        master.wait("host a reports", LONG)
        self.assertIn("This wants a certificate", self.once(row.url, host="b")[1])
        self.assertEqual(self.read(master.url)[0], 403)
        status, text = self.read(master.url, self.path("leaf.pem"), self.path("leaf.key"))
        self.assertEqual(status, 200)
        self.assertRegex(text, r"\na  .* from 127.0.0.1 over row\n")

    def test_wrong_options(self):
        pem = self.certify("master")
        for options, code, sentence in ((("--client-ca", self.path("ours.pem")), 2,
                                         "--client-ca wants --certificate and --key, too"),
                                        ((*pem, "--client-ca", "/nonexistent"), 1, "reading /nonexistent"),
                                        ((*pem, "--client-ca", self.token), 1,
                                         "the certificates and the key are none, or do not fit")):
            for command in (("master",), ("agent", "--master", "https://127.0.0.1:1")):
                done = subprocess.run([TUTTI, *command, "--token", self.token, "--listen", "127.0.0.1:0", *options],
                                      capture_output=True, text=True,
                                      timeout=LONG, env=dict(os.environ, TUTTI_TRACE_DIR=self.folder))
                self.assertEqual(done.returncode, code, done)
                self.assertIn(sentence, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
