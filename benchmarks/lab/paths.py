# SPDX-License-Identifier: Apache-2.0
"""A path master of a lab and its agents, for the time of a block."""
import contextlib
import os
import subprocess

from fabric import Failed

TOKEN, OPERATOR = "a-tenant-of-the-lab", "an-operator-of-the-lab"


class Paths:
    """begin() starts what the block needs. `right`: of the tenant; `log`: of errors, which else go to the screen."""

    def __init__(self, lab, right="", log=None):
        self.lab, self.programs, self.log = lab, [], log
        for name, text in (("tenants", f"lab {TOKEN} {right}\nowner {OPERATOR} operator\n"), ("token", TOKEN),
                           ("operator", OPERATOR)):
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write(text)

    def path(self, name):
        return os.path.join(self.lab.folder.name, name)

    def agent(self):
        return self.lab.build.path("control", "pathagent", "tutti-pathagent")

    def start(self, *words):
        """The first line that the program says."""
        with open(self.path(self.log), "a", encoding="utf-8") if self.log else contextlib.nullcontext() as log:
            self.programs.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True))
        line = self.programs[-1].stdout.readline()
        if not line:
            raise Failed(f"{words[0]} does not start")
        return line

    def run_beside(self, *words):
        """A program that says nothing when it is ready."""
        with open(self.path(self.log), "a", encoding="utf-8") as log:
            self.programs.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True))

    def start_master(self, state, listen="127.0.0.1:0"):
        """`state`: a file of the lab's folder, or members of etcd. Returns where the master listens."""
        said = self.start(self.lab.build.path("control", "pathmaster", "tutti-pathmaster"), self.lab.file, "--tenants",
                          self.path("tenants"), "--state", state if ":" in state else self.path(state), "--listen",
                          listen)
        self.url = said.split()[3].rstrip(":")
        return self.url

    def start_agent(self, socket, *more):
        self.start(self.agent(), "--master", self.url, "--token", self.path("token"), "--socket", socket, *more)

    def __enter__(self):
        try:
            self.begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for program in self.programs:
            program.kill()
            program.wait()
            program.stdout.close()
        self.programs = []
