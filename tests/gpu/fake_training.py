# SPDX-License-Identifier: Apache-2.0
"""In place of a training program: over tutti (LD_PRELOAD is set) or over another library. Mode fsdp needs both at the
same time, as what it writes goes when it ends; mode tp ends over tutti with another loss; mode pp hangs over tutti."""
import os
import sys
import time

mode, here, folder = sys.argv[2], "LD_PRELOAD" in os.environ, os.environ["FAKE_TRAINING"]
mine, other = (os.path.join(folder, f"{mode}.{os.environ['RANK']}.{over}") for over in (here, not here))
open(mine, "w").close()
try:
    if mode == "pp" and here:
        time.sleep(60)
    while mode == "fsdp" and not os.path.exists(other):
        time.sleep(0.01)
    print(f"{mode} step 1: loss {6.5 if mode == 'tp' and here else 6.25}")
    print(f"served: tutti communicators {int(here)}; ncclAllReduce from /x/libnccl.so.2")
    if mode == "fsdp":
        time.sleep(2)  # the other must have seen it
finally:
    os.remove(mine)
