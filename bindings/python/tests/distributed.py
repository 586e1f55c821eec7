# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch's own tests of backends, which its wheel ships, over tutti and over Gloo, and compares.

distributed.py [--backends tutti,gloo] [--ranks 3] [--only PATTERN] [--markdown FILE]

The tests are DistributedTest._DistTestBase. Which of them concern a backend that PyTorch does not know is decided as
for Gloo, the backend for CPUs that it has; and so is what they do, where they ask for its name. Ranks are forked from a
process that has imported PyTorch, which saves seconds a rank. Exit status 1:
a test that passes with Gloo does not with tutti.
"""
import argparse
import collections
import os
import re
import signal
import sys
import tempfile
import time
import unittest

FOLDER = tempfile.mkdtemp(prefix="tutti-distributed-")
SECONDS = 60  # for one test


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backends", default="tutti,gloo")
    parser.add_argument("--ranks", default="3")
    parser.add_argument("--only", default="")
    parser.add_argument("--markdown")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


def suite(ranks):
    """PyTorch's module, as it is for Gloo without a GPU."""
    os.environ.update(BACKEND="gloo", WORLD_SIZE=ranks, TEMP_DIR=FOLDER,
                      INIT_METHOD=f"file://{FOLDER}/shared_init_file", MASTER_ADDR="localhost",
                      OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", TUTTI_SOCKET_IFNAME="lo", CUDA_VISIBLE_DEVICES="")
    os.environ.setdefault("TUTTI_DEBUG", "none")
    from torch.testing._internal import common_distributed
    from torch.testing._internal.distributed import distributed_test

    distributed_test.DEFAULT_TIMEOUT = common_distributed.TIMEOUT_DEFAULT = SECONDS
    distributed_test.CUSTOMIZED_TIMEOUT = {}
    common_distributed.get_timeout = lambda name: SECONDS
    return distributed_test


class LikeGloo(str):
    """A backend's name for which the tests do what they do for Gloo:
    for one that they have never heard of some do nothing, or half."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return other == "gloo" or str.__eq__(self, other)

    def __ne__(self, other):
        return not self == other


def cases(module, backend):
    """The class of tests for a backend."""
    import torch.multiprocessing

    class TestBackend(module.TestDistBackend, module.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    TestBackend.__qualname__ = TestBackend.__name__ = backend
    return TestBackend


class Results(unittest.TestResult):
    """What became of each test: passed, failed or skipped."""

    def __init__(self, verbose):
        super().__init__()
        self.outcomes, self.verbose = {}, verbose

    def _note(self, test, outcome, text=""):
        name = test._testMethodName
        self.outcomes[name] = outcome
        if outcome == "failed" or self.verbose:
            print(f"{type(test).__name__} {name}: {outcome} after {time.time() - self.start:.1f} s {text}", flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.start = time.time()

    def addSuccess(self, test):
        self._note(test, "passed")

    def addSkip(self, test, reason):
        self._note(test, "skipped", reason)

    def addError(self, test, error):
        self._note(test, "failed", self._exc_info_to_string(error, test))

    addFailure = addError


def run(module, backend, arguments):
    """Outcomes by name."""
    module.BACKEND = LikeGloo(backend)
    kind = cases(module, backend)
    names = [name for name in unittest.TestLoader().getTestCaseNames(kind) if re.search(arguments.only, name)]
    results = Results(arguments.verbose)
    unittest.TestSuite(kind(name) for name in names).run(results)
    return results.outcomes


def describe(outcomes):
    counts = collections.Counter(outcomes.values())
    return f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"


def table(found):
    """Markdown: how many, and each test that is not the same with both."""
    import torch

    yield f"| PyTorch {torch.__version__.split('+')[0]} | " + " | ".join(found) + " |"
    yield "|---" * (len(found) + 1) + "|"
    for outcome in ("passed", "failed", "skipped"):
        yield f"| {outcome} | " + " | ".join(str(collections.Counter(o.values())[outcome])
                                             for o in found.values()) + " |"
    for name in sorted(set().union(*found.values())):
        outcomes = [each.get(name, "-") for each in found.values()]
        if len(set(outcomes)) > 1 or "failed" in outcomes:
            yield f"| `{name}` | " + " | ".join(outcomes) + " |"


def main():
    arguments = options()
    module = suite(arguments.ranks)
    import tutti.torch.group  # noqa: F401  for the ranks, which are forked

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    found = {backend: run(module, backend, arguments) for backend in arguments.backends.split(",")}
    lines = list(table(found))
    print("\n".join(lines))
    if arguments.markdown:
        with open(arguments.markdown, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    worse = [name for name, outcome in found.get("gloo", {}).items()
             if outcome == "passed" and found.get("tutti", {}).get(name) != "passed"]
    print(*(f"passes with Gloo alone: {name}" for name in worse), sep="\n")
    return bool(worse) or not found


if __name__ == "__main__":
    sys.exit(main())
