/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/stream/lengths.h"

#include "engine/team.h"

#include <inttypes.h>
#include <stdio.h>

void lengths_describe(const struct team *team, int rank, const struct kernel_wrong *wrong, char *out, size_t size)
{
    const int who = team_told_rank(team, rank), me = team_told_rank(team, team->rank);
    const int64_t value = (int64_t)(wrong->low | (uint64_t)wrong->high << 32);
    int at = snprintf(out, size, "alltoallv_dynamic: ");
    out += at;
    size -= (size_t)at;
    switch ((enum kernel_wrong_kind)wrong->what) {
    case KERNEL_WRONG_SPLIT:
        snprintf(out, size, "split %u of rank %d has %" PRId64 " rows: negative, or more than its send_rows", wrong->at,
                 who, value);
        return;
    case KERNEL_WRONG_SUM:
        snprintf(out, size, "up to split %u a window of rank %d has %" PRId64 " rows, more than its send_rows",
                 wrong->at, who, value);
        return;
    case KERNEL_WRONG_LENGTH:
        snprintf(out, size, "rank %d has %" PRId64 " indices for rank %u: negative, or more than its index_room", who,
                 value, wrong->at);
        return;
    case KERNEL_WRONG_BLOCKS:
        snprintf(out, size, "up to those for rank %u rank %d has %" PRId64 " indices, more than its index_room",
                 wrong->at, who, value);
        return;
    case KERNEL_WRONG_INDEX:
        snprintf(out, size, "index number %u of rank %d is %" PRId64 ": it names no split", wrong->at, who, value);
        return;
    case KERNEL_WRONG_WINDOW:
        snprintf(out, size, "split %u of rank %d ends at row %" PRId64 " of a window of rank %d, beyond its recv_rows",
                 wrong->at, who, value, me);
        return;
    default:
        snprintf(out, size, "rank %d has %u splits, or rows or windows of other lengths, unlike rank %d", who,
                 wrong->at, me);
        return;
    }
}
