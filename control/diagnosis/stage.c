/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in an iteration of training a process is, by the pattern of its calls (ICCL section 6). A broadcast in the
 * tensor group begins an iteration. The pipeline's group only sends and receives. The data group scatters and gathers
 * after the last backward pass. Evidence says so only for a process that has one communicator of each kind; nothing
 * rests on it.
 */
#include "diagnosis/stage.h"

#include "diagnosis/phrase.h"

#define CALLS_LEAST 4 /* calls that a communicator must remember to show its kind */

enum role { OTHER, TENSOR, PIPELINE, DATA, ROLES };

static enum role role_of(const struct blackbox_comm *comm)
{
    size_t count[WIRE_COLLECTIVE_COUNT] = {0}, messages, parts;
    for (size_t i = 0; i < comm->op_count; i++)
        if (comm->ops[i].collective >= 0 && comm->ops[i].collective < WIRE_COLLECTIVE_COUNT)
            count[comm->ops[i].collective]++;
    messages = count[WIRE_SEND] + count[WIRE_RECV] + count[WIRE_GROUP];
    parts = count[WIRE_REDUCE_SCATTER] + count[WIRE_ALLGATHER];
    if (comm->op_count < CALLS_LEAST || comm->nranks < 2)
        return OTHER;
    if (messages == comm->op_count)
        return PIPELINE;
    if (parts == comm->op_count && count[WIRE_REDUCE_SCATTER] && count[WIRE_ALLGATHER])
        return DATA;
    return count[WIRE_BROADCAST] && !messages && count[WIRE_BROADCAST] < comm->op_count ? TENSOR : OTHER;
}

/* When the latest call began; `only`: of this collective, -1: of any. 0: none. */
static uint64_t latest(const struct blackbox_comm *comm, int only)
{
    uint64_t time = 0;
    for (size_t i = 0; i < comm->op_count; i++)
        if ((only < 0 || comm->ops[i].collective == only) && comm->ops[i].begin > time)
            time = comm->ops[i].begin;
    return time;
}

/* Finds one communicator of each kind, or returns false. */
static bool find_roles(const struct blackbox *box, const struct blackbox_comm *found[ROLES])
{
    for (size_t i = 0; i < box->comm_count; i++) {
        const struct blackbox_comm *comm = &box->comms[i];
        enum role role = comm->state == WIRE_COMM_CLOSED ? OTHER : role_of(comm);
        if (role != OTHER && found[role])
            return false;
        found[role] = comm;
    }
    return found[TENSOR] && found[PIPELINE] && found[DATA];
}

void prove_stage(struct finding *finding, const struct blackbox *box)
{
    const struct blackbox_comm *found[ROLES] = {NULL};
    if (!find_roles(box, found))
        return;
    uint64_t begun = latest(found[TENSOR], WIRE_BROADCAST), data = latest(found[DATA], -1);
    const struct blackbox_op *exchange = blackbox_current(found[DATA]);
    const char *where = exchange       ? "in the exchange of gradients, after its last backward"
                        : data > begun ? "between two iterations: optimizer, checkpoint or data loader"
                                       : "in forward or backward";
    prove(finding, "by the pattern of its calls: stage %d of %d of the pipeline (%s); %s%s%s%s",
          found[PIPELINE]->rank + 1, found[PIPELINE]->nranks, phrase_name(found[PIPELINE]), where,
          begun && box->now > begun ? ", the iteration began " : "",
          begun && box->now > begun ? phrase_time(box->now - begun).text : "", begun && box->now > begun ? " ago" : "");
}
