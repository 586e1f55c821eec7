# SPDX-License-Identifier: Apache-2.0
"""steps_test.py TUTTI FAULTY_GPU DRIVER: on the stand-in driver, two hosts of two GPUs each are in an allreduce, which
is three steps. The last rank does not come: its neighbour waits on their island, the others wait on rails. The
diagnosis names that rank alone, and the steps.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

AT = 3
BEHIND = r"VERDICT: rank 3 of \S+ \(process \d+[^)]*\).* waited for by"
ON_ISLAND = r"rank 2 .*in step 1 of 3 of allreduce between hosts \(reduce_scatter #\d+ on the island of index 1\)"
ON_RAILS = r"ranks? [01].*in step 2 of 3 \(allreduce on the rail of index [01]\) of allreduce #\d+"
PATIENCE = 60  # seconds: a busy machine


def right(said):
    """On a busy machine another rank may be named for a while, too."""
    return said.count("VERDICT") == 1 and all(re.search(words, said) for words in (BEHIND, ON_ISLAND, ON_RAILS))


def main():
    tutti, faulty, driver = sys.argv[1:4]
    folder = tempfile.TemporaryDirectory(prefix="tutti-steps-")
    env = dict(os.environ, TUTTI_TRACE_DIR=folder.name, TUTTI_TEST_GPU="1", TUTTI_EMULATED_GPUS="4",
               TUTTI_STAGE_THREADS="1", LD_LIBRARY_PATH=driver + ":" + os.environ.get("LD_LIBRARY_PATH", ""))
    job = subprocess.Popen([tutti, "run", "-n", "4", "--", "sh", "-c",
                            'TUTTI_HOSTID=$((TUTTI_RANK / 2)) exec "$0" "$@"', faulty, "between", "3", str(AT)],
                           env=env, stdout=subprocess.PIPE, text=True)
    try:
        for _ in range(4):
            print(job.stdout.readline(), end="")
        end, said = time.time() + PATIENCE, ""
        while time.time() < end and not right(said):
            said = subprocess.run([tutti, "diagnose", "--stuck", "500ms"], env=env, capture_output=True,
                                  text=True).stdout
    finally:
        job.terminate()
        job.wait()
        folder.cleanup()
    missing = [words for words in (BEHIND, ON_ISLAND, ON_RAILS) if not re.search(words, said)]
    print(said, *[f"not said: {words}" for words in missing], sep="\n")
    return not right(said)


if __name__ == "__main__":
    sys.exit(main())
