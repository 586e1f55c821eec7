# SPDX-License-Identifier: Apache-2.0
"""The parts of tests/gpu/run.py: modules as those of benchmarks/gpu_parts, whose programs and tables they use."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "benchmarks"))
