# SPDX-License-Identifier: Apache-2.0
"""rails_knobs_test.py TUTTI DRIVER: what NCCL's variables do to what goes between hosts. A GPU on each of two hosts, on
the stand-in driver: each variable is obeyed, and the log says how, or that it is not; once in each process.
"""
import os
import subprocess
import sys

RANKS = 2
RUNS = (
    ({"NCCL_MAX_CTAS": "1", "NCCL_CTA_POLICY": "2", "NCCL_DMABUF_ENABLE": "0", "NCCL_CROSS_NIC": "1",
      "NCCL_P2P_PXN_LEVEL": "2"},
     ("what goes to other hosts takes up to 1 blocks of a kernel, from 64 MiB on 1, whatever the CTA policy",
      "whose data is copied: NCCL_DMABUF_ENABLE",
      "NCCL_CROSS_NIC is set and has no effect here: the i-th lane of two processes",
      "NCCL_P2P_PXN_LEVEL is set and has no effect here: what a GPU sends to another host leaves by adapters of")),
    ({"NCCL_NET_GDR_LEVEL": "LOC", "NCCL_MAX_NCHANNELS": "3", "NCCL_MIN_NCHANNELS": "3"},
     ("whose data is copied: NCCL_NET_GDR_LEVEL",
      "what goes to other hosts takes up to 2 blocks of a kernel, from 64 MiB on 3, whatever the CTA policy")),
)


def said_by(tutti, driver, settings):
    env = dict(os.environ, TUTTI_DEBUG="info", TUTTI_EMULATED_GPUS=str(RANKS),
               LD_LIBRARY_PATH=driver + ":" + os.environ.get("LD_LIBRARY_PATH", ""), **settings)
    done = subprocess.run([tutti, "run", "-n", str(RANKS), "--timeout", "60", "--", "sh", "-c",
                           'TUTTI_HOSTID=$TUTTI_RANK exec "$0" "$@"', tutti, "perf", "allreduce", "--gpu", "-b", "1K",
                           "-e", "1K", "-n", "1", "-w", "1"], env=env, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def main():
    tutti, driver = sys.argv[1:3]
    wrong = 0
    for settings, sentences in RUNS:
        ended, said = said_by(tutti, driver, settings)
        missing = [f"{said.count(words)} times: {words}" for words in sentences if said.count(words) != RANKS]
        if ended or missing:
            print(said, settings, *missing, sep="\n")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
