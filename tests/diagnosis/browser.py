# SPDX-License-Identifier: Apache-2.0
"""A browser without a window, driven over a pipe by its own protocol."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
LONG = 120  # seconds until what must happen has happened


def program():
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


# Debian's Chromium reads policies there alone. They are mounted in a namespace of its own, so that no other browser of
# this machine sees them.
POLICIES = "/etc/chromium/policies"
WITH_POLICIES = ("mount -t tmpfs none /etc/chromium && mkdir /etc/chromium/policies && "
                 f"mount --bind \"$1\" {POLICIES} && shift && exec \"$@\"")


def certutil():
    """Its database of certificates is read by Chromium."""
    return shutil.which("certutil") and shutil.which("pk12util")


def takes_policies():
    """May this process give a browser policies of its own?"""
    return os.path.isdir("/etc/chromium") and subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/etc/chromium"], check=False, capture_output=True,
        timeout=LONG).returncode == 0


class Profile:
    """Whom a browser trusts, and what it shows of itself. A browser asks its user which certificate to show; without
    a window a policy answers."""

    def __init__(self, folder):
        self.home, self.policies = os.path.join(folder, "home"), None
        self.database = os.path.join(self.home, ".pki", "nssdb")
        os.makedirs(self.database)
        self.run("certutil", "-N", "--empty-password")

    def run(self, program_, *words):
        subprocess.run([program_, "-d", f"sql:{self.database}", *words], check=True, capture_output=True, timeout=LONG)

    def trust(self, pem):
        self.run("certutil", "-A", "-t", "C,,", "-n", os.path.basename(pem), "-i", pem)

    def show(self, pem, key, url):
        """Shows this certificate to those at the address that ask for one of its authority."""
        bundle = os.path.join(self.home, "own.p12")
        subprocess.run(["openssl", "pkcs12", "-export", "-inkey", key, "-in", pem, "-out", bundle, "-name", "own",
                        "-passout", "pass:own"], check=True, capture_output=True, timeout=LONG)
        self.run("pk12util", "-i", bundle, "-W", "own")
        self.policies = os.path.join(self.home, "policies")
        os.makedirs(os.path.join(self.policies, "managed"))
        with open(os.path.join(self.policies, "managed", "show.json"), "w", encoding="ascii") as file:
            json.dump({"AutoSelectCertificateForUrls": [json.dumps({"pattern": url, "filter": {}})]}, file)


class Browser:
    def __init__(self, width=1280, height=900, profile=None):
        self.folder = tempfile.mkdtemp(prefix="tutti-browser-")
        before, env = [], dict(os.environ, TMPDIR=self.folder)
        if profile:
            env["HOME"] = profile.home
        if profile and profile.policies:
            before = ["unshare", "-m", "sh", "-c", WITH_POLICIES, "sh", profile.policies]
        ours, theirs = os.pipe(), os.pipe()  # what it reads, what it writes
        self.process = subprocess.Popen(
            [*before, program(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={self.folder}", f"--window-size={width},{height}",
             "about:blank"],
            preexec_fn=lambda: (os.dup2(ours[0], 60), os.dup2(theirs[1], 61), os.dup2(60, 3), os.dup2(61, 4)),
            close_fds=False, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(ours[0])
        os.close(theirs[1])
        self.to, self.from_ = os.fdopen(ours[1], "wb", 0), os.fdopen(theirs[0], "rb", 0)
        self.number, self.left, self.session, self.complaints = 0, b"", None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        """Asked to, it ends what it has started, which would write to the folder for a while if it were killed. Nobody
        waits for its answer: it may hang."""
        try:
            self.to.write(b'{"id": 0, "method": "Browser.close"}\0')
            self.process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.to.close()
        self.from_.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def message(self):
        while b"\0" not in self.left:
            part = self.from_.read(1 << 16)
            if not part:
                raise AssertionError("the browser is gone")
            self.left += part
        text, self.left = self.left.split(b"\0", 1)
        return json.loads(text)

    def note(self, message):
        """What the page did wrong."""
        if message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(message["params"]["exceptionDetails"])
        if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.complaints.append(message["params"]["entry"])

    def call(self, method, **params):
        self.number += 1
        wanted = {"id": self.number, "method": method, "params": params}
        if self.session:
            wanted["sessionId"] = self.session
        self.to.write(json.dumps(wanted).encode() + b"\0")
        while True:
            message = self.message()
            self.note(message)
            if message.get("id") == self.number:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return message["result"]

    def open(self, url):
        """Why that failed; None: it did not."""
        return self.call("Page.navigate", url=url).get("errorText")

    def ask(self, script):
        """What the page answers."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"])
        return result["result"].get("value")

    def until(self, script, seconds=LONG):
        end = time.monotonic() + seconds
        while not (answer := self.ask(f"!!({script})")):
            if time.monotonic() > end:
                raise AssertionError(f"{script} does not come true; the page: {self.ask('document.body.innerText')}")
            time.sleep(0.05)
        return answer

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def colours(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
