# SPDX-License-Identifier: Apache-2.0
"""The parts of gpu.py: one module each, with add_arguments(parser) and main(options, results)
that returns the number of failures."""
