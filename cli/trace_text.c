/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, times and states as people read them. */
#include "cli/trace_text.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct phrase view_size(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    struct phrase word;
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(word.text, sizeof word.text, unit && value < 100 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return word;
}

struct phrase view_day(const struct blackbox *box, uint64_t time)
{
    struct phrase word;
    uint64_t real = time + (uint64_t)box->realtime_offset;
    time_t seconds = (time_t)(real / NS_PER_S);
    struct tm parts;
    if (!localtime_r(&seconds, &parts))
        memset(&parts, 0, sizeof parts);
    size_t used = strftime(word.text, sizeof word.text, "%H:%M:%S", &parts);
    snprintf(word.text + used, sizeof word.text - used, ".%06u", (unsigned)(real % NS_PER_S / 1000));
    return word;
}

double view_busbw(const struct blackbox_op *op, int nranks)
{
    double factor = 1, n = nranks;
    if (op->state != WIRE_OP_DONE || op->end <= op->begin || op->result || nranks < 1 || op->device)
        return 0;
    if (op->collective == WIRE_ALLREDUCE)
        factor = 2 * (n - 1) / n;
    else if (op->collective == WIRE_ALLGATHER || op->collective == WIRE_REDUCE_SCATTER ||
             op->collective == WIRE_ALLTOALL || op->collective == WIRE_ALLTOALLV || op->collective == WIRE_GATHER ||
             op->collective == WIRE_SCATTER)
        factor = (n - 1) / n;
    return (double)op->bytes * factor / (double)view_duration(op, 0);
}

uint64_t view_duration(const struct blackbox_op *op, uint64_t now)
{
    if (op->gpu_end)
        return op->gpu_end - op->gpu_begin;
    uint64_t from = op->start && !op->device ? op->start : op->begin, to = op->state == WIRE_OP_DONE ? op->end : now;
    return to > from ? to - from : 0;
}

const char *view_comm_state(const struct blackbox *box, const struct blackbox_comm *comm)
{
    switch (comm->state) {
    case WIRE_COMM_OPEN:
        return box->alive ? "open" : "left open";
    case WIRE_COMM_CLOSED:
        return "closed";
    case WIRE_COMM_FAILED:
        return "failed";
    default:
        return "aborted";
    }
}

const char *view_box_state(const struct blackbox *box)
{
    if (box->alive)
        return "alive";
    return box->header.state == WIRE_BOX_CLOSED ? "ended" : "dead";
}

const struct blackbox_comm *view_world(const struct blackbox *box)
{
    const struct blackbox_comm *largest = NULL;
    for (size_t i = 0; i < box->comm_count; i++)
        if (!largest || box->comms[i].nranks > largest->nranks)
            largest = &box->comms[i];
    return largest;
}

void view_program(const struct blackbox *box, char *out, size_t size)
{
    const char *command = box->header.command, *end = strchr(command, ' '), *begin = command;
    end = end ? end : command + strlen(command);
    for (const char *slash = command; slash < end; slash++)
        begin = *slash == '/' ? slash + 1 : begin;
    snprintf(out, size, "%.*s", (int)(end - begin), begin);
}
