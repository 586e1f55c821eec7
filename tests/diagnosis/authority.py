# SPDX-License-Identifier: Apache-2.0
"""Certificates for a test, made by openssl: of two authorities, `ours` and `theirs`."""
import os
import shutil
import subprocess

LONG = 150  # seconds until what must happen has happened


def program():
    return shutil.which("openssl")


class Authorities:
    def __init__(self, folder):
        self.folder = folder
        for authority in ("ours", "theirs"):
            self.openssl("req", "-x509", *self.new_key(authority), "-out", self.path(f"{authority}.pem"), "-days", "2",
                         "-subj", f"/CN={authority}")

    def path(self, name):
        return os.path.join(self.folder, name)

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

    def certify(self, name, authority="ours", days=2, later=False, address="127.0.0.1"):
        """The options of one that has this certificate."""
        request, extra = self.path(f"{name}.request"), self.path("extra")
        with open(extra, "w", encoding="ascii") as file:
            file.write(f"subjectAltName=IP:{address}\n")
        self.openssl("req", "-new", *self.new_key(name), "-out", request, "-subj", f"/CN={name}")
        if later:
            self.sign_later(request, extra, self.path(f"{name}.pem"))
        else:
            self.openssl("x509", "-req", "-in", request, "-CA", self.path(f"{authority}.pem"),
                         "-CAkey", self.path(f"{authority}.key"), "-CAcreateserial",
                         "-out", self.path(f"{name}.pem"), "-days", str(days), "-extfile", extra)
        return ("--certificate", self.path(f"{name}.pem"), "--key", self.path(f"{name}.key"))
