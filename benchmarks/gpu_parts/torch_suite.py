# SPDX-License-Identifier: Apache-2.0
"""One test of PyTorch's own suite for the back ends of torch.distributed, as the suite runs them: `torch_suite.py
NAME`. `--list` names those that are not skipped for the back end nccl. The environment says BACKEND,
WORLD_SIZE and TEMP_DIR."""
import os
import sys
import unittest

for folder in ("barrier", "test_dir", "init_dir"):
    os.makedirs(os.path.join(os.environ["TEMP_DIR"], folder), exist_ok=True)

import torch  # noqa: E402
from torch.testing._internal.distributed import distributed_test as suite  # noqa: E402


class Distributed(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
    """The suite's tests, each in processes of its own."""

    def setUp(self):
        super().setUp()
        self._spawn_processes()
        torch.backends.cudnn.flags(enabled=True, allow_tf32=False).__enter__()


def names():
    every = unittest.defaultTestLoader.getTestCaseNames(Distributed)
    return [name for name in every if not getattr(getattr(Distributed, name), "__unittest_skip__", False)]


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print("\n".join(names()))
    else:
        unittest.main(argv=["torch_suite.py", "Distributed." + sys.argv[1]])
