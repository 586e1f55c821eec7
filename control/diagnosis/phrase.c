/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnosis/phrase.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>

struct phrase phrase_time(uint64_t ns)
{
    struct phrase word;
    if (ns < 10 * NS_PER_US)
        snprintf(word.text, sizeof word.text, "%" PRIu64 " ns", ns);
    else if (ns < 10 * NS_PER_MS)
        snprintf(word.text, sizeof word.text, "%.1f us", (double)ns / 1e3);
    else if (ns < NS_PER_S)
        snprintf(word.text, sizeof word.text, "%.1f ms", (double)ns / 1e6);
    else if (ns < 3600 * NS_PER_S)
        snprintf(word.text, sizeof word.text, "%.1f s", (double)ns / 1e9);
    else
        snprintf(word.text, sizeof word.text, "%.1f h", (double)ns / 3600e9);
    return word;
}

struct phrase phrase_number(uint64_t number)
{
    struct phrase word;
    snprintf(word.text, sizeof word.text, "%" PRIu64, number);
    return word;
}

struct phrase phrase_call(const struct blackbox_op *op)
{
    struct phrase word;
    snprintf(word.text, sizeof word.text, "%s #%" PRIu64, blackbox_collective_name(op->collective), op->seq);
    return word;
}

/* A GPU's record is of the step on its island, any other one of the whole call. */
struct phrase_line phrase_step(const struct blackbox_op *op)
{
    struct phrase_line word;
    unsigned number = op->step >> 8 & 255, steps = op->step & 255, index = op->step >> 16 & 255;
    const char *other = blackbox_collective_name(op->step >> 24 & 127);
    if (!op->step)
        snprintf(word.text, sizeof word.text, "%s", phrase_call(op).text);
    else if (op->device)
        snprintf(word.text, sizeof word.text, "step %u of %u of %s between hosts (%s on the island of index %u)",
                 number, steps, other, phrase_call(op).text, index);
    else if (index == UINT8_MAX)
        snprintf(word.text, sizeof word.text, "step %u of %u (%s on rails) of %s", number, steps, other,
                 phrase_call(op).text);
    else
        snprintf(word.text, sizeof word.text, "step %u of %u (%s on the rail of index %u) of %s", number, steps, other,
                 index, phrase_call(op).text);
    return word;
}

const char *phrase_state(const struct blackbox_op *op)
{
    if (op->captured)
        return op->result ? "failed" : "captured";
    if (op->state == WIRE_OP_ENQUEUED)
        return !op->device ? "queued" : *op->algorithm ? "issued" : "called";
    if (op->state == WIRE_OP_RUNNING)
        return "running";
    return op->result ? "failed" : "done";
}

const char *phrase_name(const struct blackbox_comm *comm)
{
    return *comm->name ? comm->name : "(no name)";
}
