/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs that compute while their collectives are under way. A call that lasts long tells nothing there: the program may
 * not have asked for its end so far. Ranks stay one behind the other, by as much as they compute, and nobody waits.
 */
#include "diagnosis/overlap.h"

#include "diagnosis/share.h"
#include "diagnosis/thresholds.h"

#include <stdlib.h>

/* The process's collectives in the latest time. */
static bool is_collective_of_late(const struct blackbox *box, const struct blackbox_op *op)
{
    return op->collective < WIRE_SEND && !op->device && op->begin <= box->now && box->now - op->begin < OVERLAP_NS;
}

/* Does this process often begin a collective while another one is under way? */
static bool overlaps(struct scene *scene, const struct blackbox *box)
{
    size_t count, under_way = 0;
    const struct blackbox_op **calls = process_calls(box, is_collective_of_late, &count);
    uint64_t over = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t end = calls[i]->state == WIRE_OP_DONE ? calls[i]->end : box->now;
        under_way += calls[i]->begin < over;
        over = end > over ? end : over;
    }
    scene->steps += count;
    free(calls);
    return count >= OVERLAP_CALLS && (double)under_way >= OVERLAP_PART * (double)count;
}

/* The latest time ends with the newest call: a pause after it says nothing. */
bool overlap_was_faster(const struct blackbox *box)
{
    uint64_t window = OVERLAP_NS, since = box->now, newest = 0;
    double latest = 0;
    for (size_t i = 0; i < box->comm_count; i++) {
        const struct blackbox_comm *comm = &box->comms[i];
        uint64_t last = comm->op_count ? comm->ops[comm->op_count - 1].begin : 0;
        since = comm->opened && comm->opened < since ? comm->opened : since;
        newest = last > newest && last <= box->now ? last : newest;
    }
    for (size_t i = 0; i < box->comm_count; i++) {
        const struct blackbox_comm *comm = &box->comms[i];
        uint64_t first = comm->op_count ? comm->ops[0].begin : newest;
        if (comm->op_count && comm->ops[0].position > 0 && first < newest && newest - first < window)
            window = newest - first;
    }
    for (size_t i = 0; i < box->comm_count; i++)
        for (size_t j = 0; j < box->comms[i].op_count; j++)
            latest += box->comms[i].ops[j].begin + window >= newest;
    double all = (double)box->counters[WIRE_COUNTER_OPERATIONS];
    if (newest <= since || newest - since <= window || all <= latest || latest < OVERLAP_CALLS)
        return false;
    return latest / (double)window < OVERLAP_SLOWER * (all - latest) / (double)(newest - since - window);
}

bool overlap_hides_waits(struct scene *scene, const struct member_group *group)
{
    bool overlap = false, slower = true;
    for (size_t i = 0; i < group->count; i++) {
        overlap = overlap || overlaps(scene, group->members[i].box);
        slower = slower && overlap_was_faster(group->members[i].box);
    }
    return overlap && !slower;
}

bool overlap_waits_for_work(const struct scene *scene, const struct member *member, double mean, double squares)
{
    const struct processor_share share = share_of(scene, member);
    return share.time && (double)share.ran < WORK_PART * (double)share.time &&
           (double)share.delayed < SHORT_PART * (double)share.time &&
           squares >= (1 + WORK_VARIES * WORK_VARIES) * mean * mean && !overlap_was_faster(member->box);
}
