/* SPDX-License-Identifier: Apache-2.0 */
#include "master/past.h"

#include "base/clock.h"
#include "verdict/verdict.h"

#include <stdio.h>

#define EVERY_NS (5 * NS_PER_S)

/* ---- Samples ---- */

/* Sums up calls: a call's place in its communicator's ring tells how many came before, also of those that no report
 * has. */
struct past_sum past_sum(const struct look *look, uint64_t at)
{
    struct past_sum sum = {.at = at};
    double bytes = 0, calls = 0;
    for (size_t i = 0; i < look->count; i++) {
        const struct blackbox *box = look->boxes[i];
        sum.processes += box->alive && box->comm_count;
        for (size_t j = 0; j < box->comm_count; j++) {
            const struct blackbox_comm *comm = &box->comms[j];
            sum.comms++;
            sum.calls += comm->unrecorded + (comm->op_count ? comm->ops[comm->op_count - 1].position + 1 : 0);
            for (size_t k = 0; k < comm->op_count; k++)
                bytes += (double)comm->ops[k].bytes;
            calls += (double)comm->op_count;
        }
    }
    sum.bytes = calls > 0 ? bytes / calls : 0;
    return sum;
}

/* Where processes or communicators came or went, their counts do not compare: the earlier rates go on. */
void past_note(struct past *past, const struct past_sum *sum, uint64_t day, size_t verdicts)
{
    const struct past_sum *before = &past->before;
    if (before->at && sum->at < before->at + EVERY_NS)
        return;
    struct past_sample sample = {.day = day, .verdicts = verdicts};
    bool same = before->at && sum->comms == before->comms && sum->calls >= before->calls && sum->processes;
    if (same) {
        double seconds = (double)(sum->at - before->at) / 1e9;
        sample.calls = (double)(sum->calls - before->calls) / seconds / (double)sum->processes;
        sample.bytes = sample.calls * sum->bytes;
    } else if (past->sample_count && sum->processes) {
        const struct past_sample *last = &past->samples[(past->sample_count - 1) % PAST_SAMPLES];
        sample.calls = last->calls;
        sample.bytes = last->bytes;
    }
    if (before->at)
        past->samples[past->sample_count++ % PAST_SAMPLES] = sample;
    past->before = *sum;
}

/* ---- Verdicts ---- */

void past_begin(struct past *past, const struct verdict *verdict)
{
    struct past_verdict *one = &past->verdicts[past->verdict_count++ % PAST_VERDICTS];
    *one = (struct past_verdict){.number = verdict->number, .began = verdict->began, .kind = verdict->finding.kind};
    snprintf(one->text, sizeof one->text, "%.199s", verdict->finding.sentence);
}

void past_end(struct past *past, const struct verdict *verdict, uint64_t day)
{
    for (size_t i = 0; i < PAST_VERDICTS; i++)
        if (past->verdicts[i].number == verdict->number)
            past->verdicts[i].ended = day;
}

/* ---- For the page ---- */

static uint64_t first_of(uint64_t count, uint64_t most)
{
    return count > most ? count - most : 0;
}

/* A text that is cut within a letter becomes a question mark: the sentence begins with the culprit, in ASCII. */
static json_t *verdict_row(const struct past_verdict *verdict)
{
    json_t *ended = verdict->ended ? json_real((double)verdict->ended / 1e9) : json_null();
    return json_pack("[I, f, o, s, s, o]", (json_int_t)verdict->number, (double)verdict->began / 1e9, ended,
                     finding_row(verdict->kind)->name, finding_class_name(finding_row(verdict->kind)->class),
                     verdict_text(verdict->text));
}

json_t *past_json(const struct past *past)
{
    json_t *samples = json_array(), *verdicts = json_array();
    for (uint64_t i = first_of(past->sample_count, PAST_SAMPLES); i < past->sample_count; i++) {
        const struct past_sample *one = &past->samples[i % PAST_SAMPLES];
        json_array_append_new(samples, json_pack("[f, f, f, I]", (double)one->day / 1e9, one->calls, one->bytes,
                                                 (json_int_t)one->verdicts));
    }
    for (uint64_t i = first_of(past->verdict_count, PAST_VERDICTS); i < past->verdict_count; i++)
        json_array_append_new(verdicts, verdict_row(&past->verdicts[i % PAST_VERDICTS]));
    return json_pack("{s:i, s:o, s:o}", "version", 1, "samples", samples, "verdicts", verdicts);
}
