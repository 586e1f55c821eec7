# SPDX-License-Identifier: Apache-2.0
"""One test of PyTorch's own suite for the back ends of torch.distributed, as the suite runs them: `torch_suite.py
NAME`. `--list` names those that are not skipped for the back end nccl. `--fork` runs those that it is told of
(forked_runs.py), each in processes that are forked. The environment says BACKEND, WORLD_SIZE and TEMP_DIR."""
import os
import sys
import unittest


def make_folders():
    for folder in ("barrier", "test_dir", "init_dir"):
        os.makedirs(os.path.join(os.environ["TEMP_DIR"], folder), exist_ok=True)


make_folders()

import torch  # noqa: E402
import torch.utils._triton  # noqa: E402

ASKED = [(module, name, getattr(module, name)) for module, name in (
    (torch.cuda, "device_count"), (torch.cuda, "is_available"), (torch.utils._triton, "has_triton"))]


def pretend(gpus):
    """The suite asks for GPUs while it is loaded, and before a test's ranks begin. Whoever has asked the driver may not
    be forked: so many GPUs are taken for granted until then."""
    for (module, name, _), answer in zip(ASKED, (gpus, gpus > 0, gpus > 0)):
        setattr(module, name, lambda answer=answer: answer)


def ask():
    """In a rank: from here on the driver says what there is."""
    for module, name, function in ASKED:
        setattr(module, name, function)


FORKS, GPUS = sys.argv[1:] == ["--fork"], int(os.environ["WORLD_SIZE"])
if FORKS:
    sys.modules["numba"] = None  # it would be asked for GPUs, and no test needs it
    pretend(GPUS)

from torch.testing._internal.distributed import distributed_test as suite  # noqa: E402

if FORKS:  # every test loads this before its ranks begin, and if there are GPUs it asks of what kind; no test looks
    pretend(0)
    import torch.testing._internal.common_device_type
    pretend(GPUS)


class Distributed(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
    """The suite's tests, each in processes of its own."""

    start = "spawn"

    @classmethod
    def _run(cls, *arguments, **named):
        ask()
        super()._run(*arguments, **named)

    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context(self.start).Process)
        torch.backends.cudnn.flags(enabled=True, allow_tf32=False).__enter__()


def names():
    every = unittest.defaultTestLoader.getTestCaseNames(Distributed)
    return [name for name in every if not getattr(getattr(Distributed, name), "__unittest_skip__", False)]


def run_one(name):
    """The exit status."""
    program = unittest.main(argv=["torch_suite.py", "Distributed." + name], exit=False)
    return int(not program.result.wasSuccessful())


def run_forked(name):
    make_folders()
    suite.INIT_METHOD = os.environ["INIT_METHOD"]
    Distributed.start = "fork"
    return run_one(name)


def opened(folder):
    """What the descriptors in /proc/self/fd are of."""
    for name in os.listdir(folder):
        try:
            yield os.readlink(os.path.join(folder, name))
        except OSError:  # the one of the list itself
            pass


def unfit():
    """Why processes that are forked from this one could not use the GPUs, or would hang; empty: they can."""
    devices = sorted({path for path in opened("/proc/self/fd") if path.startswith("/dev/nvidia")})
    if devices:
        return "the driver is in use: " + ", ".join(devices)
    threads = len(os.listdir("/proc/self/task"))
    return f"{threads} threads" if threads > 1 else ""


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print("\n".join(names()))
    elif FORKS:
        sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        from gpu_tests import forked_runs
        if unfit():
            sys.exit("not fit to be forked: " + unfit())
        forked_runs.serve(run_forked)
    else:
        sys.exit(run_one(sys.argv[1]))
