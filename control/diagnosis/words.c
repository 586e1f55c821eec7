/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnosis/words.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>

struct word word_time(uint64_t ns)
{
    struct word word;
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

struct word word_number(uint64_t number)
{
    struct word word;
    snprintf(word.text, sizeof word.text, "%" PRIu64, number);
    return word;
}

struct word word_call(const struct blackbox_op *op)
{
    struct word word;
    snprintf(word.text, sizeof word.text, "%s #%" PRIu64, blackbox_collective_name(op->collective), op->seq);
    return word;
}

const char *word_state(const struct blackbox_op *op)
{
    if (op->captured)
        return op->result ? "failed" : "captured";
    if (op->state == WIRE_OP_ENQUEUED)
        return !op->device ? "queued" : *op->algorithm ? "issued" : "called";
    if (op->state == WIRE_OP_RUNNING)
        return "running";
    return op->result ? "failed" : "done";
}

const char *word_name(const struct blackbox_comm *comm)
{
    return *comm->name ? comm->name : "(no name)";
}
