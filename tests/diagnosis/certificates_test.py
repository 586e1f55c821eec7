#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Certificates of both sides: agents and masters that know each other's authority speak;
others hear in one sentence why not.

    certificates_test.py TUTTI FAULTY
"""
import http.client
import os
import shutil
import ssl
import subprocess
import time
import unittest

from hosts import TOKEN, TUTTI, HostsTest

LONG = 150  # seconds until what must happen has happened


@unittest.skipUnless(shutil.which("openssl"), "no openssl to make certificates with")
class CertificatesTest(HostsTest):
    def setUp(self):
        super().setUp()
        for authority in ("ours", "theirs"):
            self.openssl("req", "-x509", *self.new_key(authority), "-out", self.path(f"{authority}.pem"), "-days", "2",
                         "-subj", f"/CN={authority}")

    def openssl(self, *words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=LONG)

    def new_key(self, name):
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-keyout", self.path(f"{name}.key"))

    def sign_later(self, request, extra, certificate):
        """As `openssl x509 -req` does, but to be valid from 2090 on."""
        with open(self.path("authority.cnf"), "w", encoding="ascii") as file:
            file.write(f"[ca]\ndefault_ca=ours\n[ours]\ndatabase={self.path('index')}\n"
                       f"new_certs_dir={self.folder}\nrand_serial=yes\ndefault_md=sha256\npolicy=any\n"
                       "[any]\ncommonName=supplied\n")
        with open(self.path("index"), "w", encoding="ascii"):
            pass
        self.openssl("ca", "-batch", "-notext", "-config", self.path("authority.cnf"), "-in", request,
                     "-out", certificate, "-cert", self.path("ours.pem"), "-keyfile", self.path("ours.key"),
                     "-extfile", extra, "-startdate", "20900101000000Z", "-enddate", "20910101000000Z")

    def certify(self, name, authority="ours", days=2, later=False):
        """The options of one that has this certificate."""
        request, extra = self.path(f"{name}.request"), self.path("extra")
        with open(extra, "w", encoding="ascii") as file:
            file.write("subjectAltName=IP:127.0.0.1\n")
        self.openssl("req", "-new", *self.new_key(name), "-out", request, "-subj", f"/CN={name}")
        if later:
            self.sign_later(request, extra, self.path(f"{name}.pem"))
        else:
            self.openssl("x509", "-req", "-in", request, "-CA", self.path(f"{authority}.pem"),
                         "-CAkey", self.path(f"{authority}.key"), "-CAcreateserial",
                         "-out", self.path(f"{name}.pem"), "-days", str(days), "-extfile", extra)
        return ("--certificate", self.path(f"{name}.pem"), "--key", self.path(f"{name}.key"))

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
