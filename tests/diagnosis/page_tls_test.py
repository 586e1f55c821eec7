#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of tutti master over TLS, in a real browser: who has the token, and, where a certificate is asked for, one,
sees the job; strangers see nothing of it; and the browser refuses a master that it cannot trust.

    page_tls_test.py TUTTI FAULTY
"""
import json
import unittest

import authority
import browser
from hosts import TOKEN, TUTTI, HostsTest

LONG = 150  # seconds until what must happen has happened
SEEN = ("faulty", "world", "rank", "process ", "verdict")  # what nobody else may see


@unittest.skipUnless(browser.program(), "no browser")
@unittest.skipUnless(authority.program(), "no openssl to make certificates with")
@unittest.skipUnless(browser.certutil(), "no certutil (libnss3-tools) to tell the browser whom to trust")
class PageOverTlsTest(HostsTest):
    def setUp(self):
        super().setUp()
        self.authorities, self.browser = authority.Authorities(self.folder), None
        self.profile = browser.Profile(self.folder)
        self.profile.trust(self.path("ours.pem"))
        self.settings = {"TUTTI_TRANSPORT": "tcp", "TUTTI_EAGER": "1K"}  # so that lanes carry segments

    def tearDown(self):
        if self.browser:
            self.browser.close()
        super().tearDown()

    def master(self, *options, **named):
        """A master with a certificate of ours, or as told."""
        self.certificate = None
        one = self.authorities.certify("master", **named)
        return self.start_master(*one, *options)

    def watched(self, *options):
        """A job, whose agents show a certificate, too."""
        self.start_job()
        master = self.master(*options)
        own = self.authorities.certify("agent")
        for host in "ab":
            self.start(TUTTI, "agent", "--master", self.url, "--token", self.token, "--host", host, "--dir",
                       self.path(host), "--ca", self.path("ours.pem"), *own)
            master.wait(f"host {host} reports: 2 processes\n", LONG)
        return master

    def look(self, password=TOKEN, profile=None):
        """The browser at the page, and why it does not show it."""
        if self.browser:
            self.browser.close()
        self.browser = browser.Browser(profile=profile or self.profile)
        name = f"any:{password}@" if password else ""
        return self.browser.open(self.url.replace("https://", f"https://{name}") + "/page")

    def sees_the_job(self):
        """All four ranks, as they go on; the lanes of one, which its agent is asked for; and over TLS."""
        page = self.browser
        page.until("document.querySelectorAll('.rank').length === 4")
        self.assertIn("4 processes on 2 hosts", page.ask("document.getElementById('summary').textContent"))
        self.assertEqual(page.ask("[location.protocol, window.isSecureContext]"), ["https:", True])
        first = page.ask("document.getElementById('link').textContent")
        page.until(f"document.getElementById('link').textContent !== {json.dumps(first)}")
        page.ask("document.getElementById('tab-timeline').click()")
        page.until("/^\\d+ calls of 4 ranks$/.test(document.querySelector('#timeline [role=status]').textContent)")
        self.assertEqual(page.complaints, [])

    def sees_nothing(self, sentence=""):
        """Neither on the page nor by a script that asks for more."""
        self.browser.until("document.body !== null")
        text = self.browser.ask("document.documentElement.outerHTML + ' ' + document.body.innerText")
        answers = self.browser.ask("Promise.all(['/picture', '/verdicts', '/metrics', '/page/main.js'].map((one) => "
                                   "fetch(one).then((got) => got.status, () => 'none')))")
        self.assertNotIn(200, answers)
        self.assertIn(sentence, text)
        for word in SEEN:
            self.assertNotIn(word, self.browser.ask("document.body.innerText"))
        self.assertEqual(self.browser.ask("document.querySelectorAll('.rank').length"), 0)

    def test_token(self):
        self.watched()
        self.assertIsNone(self.look())
        self.sees_the_job()
        for password in (None, TOKEN[:-1]):
            self.assertEqual(self.look(password), "net::ERR_INVALID_AUTH_CREDENTIALS")
            self.sees_nothing()

    @unittest.skipUnless(browser.takes_policies(), "no right to mount a policy that chooses the certificate to show")
    def test_client_certificate(self):
        self.watched("--client-ca", self.path("ours.pem"))
        self.authorities.certify("reader")
        own = browser.Profile(self.path("own"))
        own.trust(self.path("ours.pem"))
        own.show(self.path("reader.pem"), self.path("reader.key"), self.url)
        self.assertIsNone(self.look(profile=own))
        self.sees_the_job()
        # The certificate opens nothing without the token,
        self.assertEqual(self.look(None, own), "net::ERR_INVALID_AUTH_CREDENTIALS")
        self.sees_nothing()
        self.look()  # nor does the token without a certificate.
        self.sees_nothing("This wants a certificate of the one that comes, besides the token")
        self.authorities.certify("stranger", "theirs")
        other = browser.Profile(self.path("other"))
        other.trust(self.path("ours.pem"))
        other.show(self.path("stranger.pem"), self.path("stranger.key"), self.url)
        self.look(profile=other)  # which a browser does not show where others are asked for
        self.sees_nothing("This wants a certificate of the one that comes, besides the token")

    def test_wrong_master(self):
        """The browser goes no further, so the token is not sent."""
        for named, why in (({"authority": "theirs"}, "ERR_CERT_AUTHORITY_INVALID"),
                           ({"days": -1}, "ERR_CERT_DATE_INVALID"), ({"later": True}, "ERR_CERT_DATE_INVALID"),
                           ({"address": "127.0.0.2"}, "ERR_CERT_COMMON_NAME_INVALID")):
            master = self.master(**named)
            self.assertEqual(self.look(), f"net::{why}", named)
            self.assertNotIn("was refused", master.text)
            self.assertEqual(self.browser.ask("document.querySelectorAll('.rank, #summary').length"), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
