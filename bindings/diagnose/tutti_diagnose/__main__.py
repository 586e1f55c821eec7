# SPDX-License-Identifier: Apache-2.0
from tutti_diagnose import main

main()
