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
