# SPDX-License-Identifier: Apache-2.0
"""torch_calls.py, torch_refused.py and torch_death.py, one after another, of three ranks each; and the example of
overlap, of four. The ranks are copies of this process: PyTorch takes longer to be imported than most of that."""
import os
import sys

import torch_calls
import torch_death
import torch_refused
from torch_ranks import run

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples", "overlap"))
import overlap  # noqa: E402

RANKS = 3


def main():
    failed = [module.__name__ for module in (torch_calls, torch_refused, torch_death) if run(RANKS, module.main)]
    failed += ["overlap"] if run(4, lambda: overlap.main(["--cpu", "--check"])) else []
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
