# SPDX-License-Identifier: Apache-2.0
"""The last rank ends in the middle, without a word: the others get an exception that names it, live on,
and go on without it."""
import os
import sys
import threading
import time

import numpy

import tutti


def main():
    comm = tutti.init(timeout=5)
    ticks = []
    if comm.rank == comm.size - 1:
        comm.barrier()
        os._exit(0)  # no word to the library; a status that lets the launcher leave the others alone
    threading.Thread(target=lambda: [(ticks.append(1), time.sleep(0.01)) for _ in range(20)], daemon=True).start()
    comm.barrier()
    try:
        for _ in range(1000):
            comm.allreduce(numpy.ones(1000))
        sys.exit("no failure was reported")
    except tutti.RemoteError as error:
        if f"rank {comm.size - 1}" not in str(error) or error.code != tutti.Result.REMOTE_ERROR:
            sys.exit(f"the error does not name the dead rank: {error}")
    assert isinstance(comm.error, ConnectionError), comm.error
    rest = comm.shrink([comm.size - 1])
    total = numpy.ones(3)
    rest.allreduce(total)
    assert (total == rest.size).all(), total
    rest.destroy()
    print(f"rank {comm.rank} lives")


main()
