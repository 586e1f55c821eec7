/* SPDX-License-Identifier: Apache-2.0 */
/* One sentence for each reason. */
#include "bootstrap/verdict.h"
#include "base/error.h"

#include <stdio.h>
#include <string.h>

static tutti_result_t report_full(const struct boot_failed *failed, const char *where)
{
    char who[32] = "the process with the root";
    if (failed->rank != BOOT_NOBODY)
        snprintf(who, sizeof who, "rank %u", failed->rank);
    return error_set(TUTTI_SYSTEM_ERROR,
                     "%s (met at %s) cannot accept connections: %s; the process may open %u files, raise ulimit -n",
                     who, where, strerror((int)failed->a), failed->b);
}

tutti_result_t verdict_report(const struct boot_failed *failed, int me, const char *where)
{
    unsigned rank = failed->rank, a = failed->a, b = failed->b;
    switch (failed->reason) {
    case BOOT_BAD_PROOF:
        return error_set(TUTTI_INVALID_USAGE,
                         "rank %d was refused at %s: the nonces differ; give all ranks the same unique id "
                         "(or TUTTI_NONCE), or, if another job has that port, this job another one "
                         "(TUTTI_ID, MASTER_PORT)",
                         me, where);
    case BOOT_BAD_VERSION:
        return error_set(TUTTI_INVALID_USAGE,
                         "rank %d was refused at %s: it speaks version %u of the bootstrap protocol, this "
                         "library %u; use one tutti version for all ranks",
                         me, where, a, BOOT_VERSION);
    case BOOT_BAD_RANK:
        return error_set(TUTTI_INVALID_USAGE, "rank %u is not below the number of ranks, %u; ranks count from 0", rank,
                         a);
    case BOOT_TWICE:
        return error_set(TUTTI_INVALID_USAGE, "two processes joined as rank %u; give each its own rank", rank);
    case BOOT_NRANKS:
        return error_set(TUTTI_INVALID_USAGE,
                         "rank %u says that there are %u ranks, others say %u; pass the same number on all "
                         "ranks",
                         rank, a, b);
    case BOOT_DIED:
        return error_set(TUTTI_REMOTE_ERROR, "rank %u died or hung up; its own log may say why", rank);
    case BOOT_MISSING:
        return error_set(TUTTI_REMOTE_ERROR,
                         "%u of %u ranks did not come in time, the first is rank %u; see whether it runs and "
                         "reaches %s, or raise TUTTI_INIT_TIMEOUT",
                         a, b, rank, where);
    case BOOT_ABORTED:
        return error_set(TUTTI_REMOTE_ERROR, "rank %u was aborted by its program", rank);
    case BOOT_SILENT:
        return error_set(TUTTI_REMOTE_ERROR, "rank %u sent nothing until the deadline; see whether it runs", rank);
    case BOOT_CLOSED:
        return error_set(TUTTI_REMOTE_ERROR,
                         "the root at %s was closed before all ranks had joined: the process that made the unique id "
                         "(often rank 0) died or left",
                         where);
    case BOOT_MISFIT:
        return error_set(TUTTI_INVALID_USAGE,
                         "rank %u is in another operation, or passes another size; all ranks must make the "
                         "same calls in the same order",
                         rank);
    case BOOT_FULL:
        return report_full(failed, where);
    default:
        return error_set(TUTTI_REMOTE_ERROR, "rank %u failed; its own log says why", rank);
    }
}
