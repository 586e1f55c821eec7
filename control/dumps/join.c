/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the members of groups that no dump names, as those of Gloo. A dump tells that its own rank is in a group, by a
 * call there. The first group has all known ranks. Others have the ranks whose dumps show a call; a rank that has made
 * none is not missed.
 */
#include "dumps/dumps.h"

#include <stdlib.h>
#include <string.h>

#define WORLD "default_pg" /* what PyTorch calls the group that init_process_group made */

static int by_id_and_rank(const void *left, const void *right)
{
    const struct blackbox_comm *a = *(struct blackbox_comm *const *)left, *b = *(struct blackbox_comm *const *)right;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static size_t gather(struct blackbox *const *boxes, size_t count, struct blackbox_comm **comms)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < boxes[i]->comm_count; j++)
            if (boxes[i]->comms[j].undeclared) {
                if (comms)
                    comms[found] = &boxes[i]->comms[j];
                found++;
            }
    return found;
}

/* Turns ranks among all into ranks in the group, but for the group that has all. */
static void settle(struct blackbox_comm **members, size_t count, int ranks)
{
    bool world = strcmp(members[0]->name, WORLD) == 0;
    for (size_t i = 0; i < count; i++) {
        members[i]->nranks = world ? ranks : (int)count;
        members[i]->rank = world ? members[i]->rank : (int)i;
        members[i]->undeclared = false;
    }
}

/* ---- Dumps of one rank ---- */

static uint64_t last_call(const struct blackbox *box)
{
    uint64_t last = 0;
    for (size_t i = 0; i < box->comm_count; i++)
        for (size_t j = 0; j < box->comms[i].op_count; j++)
            last = box->comms[i].ops[j].begin > last ? box->comms[i].ops[j].begin : last;
    return last;
}

static bool is_recorded(const struct blackbox *box)
{
    return strcmp(box->header.library, DUMP_RECORDER) == 0;
}

static bool same_rank(const struct blackbox *a, const struct blackbox *b)
{
    return is_recorded(a) && is_recorded(b) && a->header.start_time == b->header.start_time;
}

static int by_rank_and_age(const void *left, const void *right)
{
    const struct blackbox *a = *(struct blackbox *const *)left, *b = *(struct blackbox *const *)right;
    int libraries = strcmp(a->header.library, b->header.library);
    uint64_t mine = last_call(a), theirs = last_call(b);
    if (libraries)
        return libraries;
    if (a->header.start_time != b->header.start_time)
        return a->header.start_time < b->header.start_time ? -1 : 1;
    return mine != theirs ? (mine > theirs ? -1 : 1) : strcmp(a->path, b->path);
}

void dump_drop_older(struct blackbox **boxes, size_t *count)
{
    size_t kept = 0;
    bool any = false;
    for (size_t i = 0; i < *count; i++)
        any = any || is_recorded(boxes[i]);
    if (any)
        qsort(boxes, *count, sizeof(struct blackbox *), by_rank_and_age);
    for (size_t i = 0; i < *count; i++)
        if (kept && same_rank(boxes[kept - 1], boxes[i]))
            blackbox_free(boxes[i]);
        else
            boxes[kept++] = boxes[i];
    *count = kept;
}

bool dump_join(struct blackbox *const *boxes, size_t count)
{
    size_t found = gather(boxes, count, NULL);
    struct blackbox_comm **comms = found ? calloc(found, sizeof(struct blackbox_comm *)) : NULL;
    int ranks = 0;
    if (!comms)
        return !found;
    gather(boxes, count, comms);
    for (size_t i = 0; i < found; i++)
        ranks = comms[i]->rank >= ranks ? comms[i]->rank + 1 : ranks;
    qsort(comms, found, sizeof(struct blackbox_comm *), by_id_and_rank);
    for (size_t i = 0, end; i < found; i = end) {
        for (end = i; end < found && comms[end]->id == comms[i]->id;)
            end++;
        settle(comms + i, end - i, ranks);
    }
    free(comms);
    return true;
}
