/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What agents send may be anything: a report, or a sentence; what is taken for one must merge and can be diagnosed. A
 * first byte of 3: the rest is the bytes of a bundle of reports, and of answers. Another odd one: the rest is the bytes
 * of a report. An even one: the rest says what a well-formed report of two hosts holds, however senseless.
 */
#include "diagnosis/network.h"
#include "diagnosis/view.h"
#include "master/job.h"
#include "report/bundle.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *data;
    size_t size;
};

/* Small numbers most often, else any; 0 at the end. */
static uint64_t draw(struct input *input)
{
    uint64_t value = 0;
    if (!input->size)
        return 0;
    uint8_t first = *input->data++;
    input->size--;
    if (first < 0xf0)
        return first % 16;
    size_t length = input->size < 8 ? input->size : 8;
    memcpy(&value, input->data, length);
    input->data += length;
    input->size -= length;
    return value;
}

static struct blackbox_op draw_op(struct input *input, uint64_t position)
{
    uint64_t what = draw(input);
    return (struct blackbox_op){.position = position,
                                .seq = draw(input),
                                .count = what,
                                .begin = draw(input),
                                .start = draw(input),
                                .end = draw(input),
                                .wait_since = draw(input),
                                .head_since = what & 4 ? draw(input) : 0,
                                .collective = (int)draw(input),
                                .type = (int)what & 7,
                                .root = (int)(what & 3) - 1,
                                .state = (enum wire_op_state)(1 + draw(input) % 3),
                                .device = what & 8,
                                .wait_peer = (int)draw(input) - 1,
                                .wait_round = (uint32_t)draw(input),
                                .algorithm = "x"};
}

#define COMMS 3
#define OPS   6

static void draw_box(struct input *input, struct blackbox *box, struct blackbox_comm *comms, struct blackbox_op *ops,
                     struct blackbox_event *events)
{
    box->header.pid = (uint32_t)draw(input);
    box->header.start_time = draw(input);
    box->header.boot_id[0] = (uint8_t)draw(input);
    box->alive = draw(input) & 1;
    box->now = draw(input);
    box->comms = comms;
    box->events = events;
    box->comm_count = draw(input) % (COMMS + 1);
    box->event_count = draw(input) & 1;
    *events = (struct blackbox_event){.time = draw(input),
                                      .kind = (uint32_t)draw(input),
                                      .peer_rank = (int)draw(input),
                                      .comm = draw(input),
                                      .value1 = draw(input)};
    for (size_t i = 0; i < box->comm_count; i++) {
        comms[i] = (struct blackbox_comm){.id = draw(input),
                                          .rank = (int)draw(input),
                                          .nranks = (int)draw(input),
                                          .state = (enum wire_comm_state)(1 + draw(input) % 4),
                                          .culprit = (int)(draw(input) - 1),
                                          .closed = draw(input),
                                          .opened = draw(input),
                                          .name = "c",
                                          .ops = ops + OPS * i};
        comms[i].op_count = draw(input) % (OPS + 1);
        for (size_t j = 0; j < comms[i].op_count; j++)
            comms[i].ops[j] = draw_op(input, 2 * j);
    }
}

static uint8_t *write_report(struct input *input, uint64_t number, size_t *size)
{
    struct report head = {
        .host = {(char)('a' + draw(input) % 2)}, .agent = draw(input) & 1, .number = number, .realtime = draw(input)};
    struct report_writer *writer = report_begin(&head);
    size_t count = draw(input) % 5;
    for (size_t i = 0; writer && i < count; i++) {
        static struct blackbox_comm comms[COMMS];
        static struct blackbox_op ops[COMMS * OPS];
        struct blackbox_event event;
        struct blackbox box = {0};
        struct report_process process = {.box = &box, .as_before = draw(input) % 4 == 3};
        draw_box(input, &box, comms, ops, &event);
        process.facts.state = (enum process_state)(draw(input) % 7);
        process.facts.at = draw(input);
        process.facts.thread_count = 1;
        process.facts.threads[0] = (struct thread_facts){1, draw(input) & 1, draw(input), draw(input)};
        report_add(writer, &process, 64);
    }
    return writer ? report_end(writer, size) : NULL;
}

static void take(struct master_job *job, const void *bytes, size_t size, uint64_t now)
{
    struct report report;
    if (report_read(bytes, size, &report) != TUTTI_SUCCESS)
        return;
    job_take(job, &report, &(struct job_origin){"10.0.0.1", "10.0.0.1"}, now, now);
    report_free(&report);
}

static void diagnose(const struct job_look *before, const struct job_look *after)
{
    const struct snapshot snapshot = {.now = after->look, .before = before->look, .stuck = 1, .watched = true};
    struct findings findings = diagnosis_find(&snapshot);
    struct network_report report;
    struct view view;
    network_look(&snapshot, &report);
    network_free(&report);
    findings_free(&findings);
    if (view_open(&view, &snapshot))
        view_close(&view);
}

#define ANSWERS 2

static int take_bundle(const uint8_t *data, size_t size)
{
    struct master_job job = {0};
    struct bundle bundle;
    struct bundle_answer answers[ANSWERS];
    struct verdict_list verdicts;
    size_t length;
    if (bundle_read(data, size, &bundle) == TUTTI_SUCCESS) {
        free(bundle_write(&bundle, &length));
        for (size_t i = 0; i < bundle.count; i++)
            take(&job, bundle.reports[i].bytes, bundle.reports[i].size, i);
        bundle_free(&bundle);
    }
    if (answers_read(data, size, answers, ANSWERS, &verdicts) == TUTTI_SUCCESS && !verdicts_check(&verdicts))
        abort();
    memset(&verdicts, 0, sizeof verdicts); /* the same bytes, as a file that anybody may have written */
    memcpy(&verdicts, data, size < sizeof verdicts ? size : sizeof verdicts);
    verdicts.magic = VERDICTS_MAGIC;
    verdicts.version = VERDICTS_VERSION;
    for (uint32_t i = 0; verdicts_check(&verdicts) && i < verdicts.count; i++)
        if (strnlen(verdicts.news[i].text, VERDICTS_TEXT) == VERDICTS_TEXT)
            abort();
    job_free(&job);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size && data[0] == 3)
        return take_bundle(data + 1, size - 1);
    struct master_job job = {0};
    struct job_look before = {0}, after = {0};
    bool raw = size && data[0] & 1;
    struct input input = {data + (size > 0), size - (size > 0)};
    if (raw)
        take(&job, input.data, input.size, 1);
    for (uint64_t number = 1; !raw && number < 5; number++) {
        size_t length = 0;
        uint8_t *bytes = write_report(&input, number, &length);
        take(&job, bytes ? bytes : (const uint8_t *)"", length, number * NS_PER_S);
        free(bytes);
        job_look_free(&before);
        before = after;
        if (!job_look(&job, number * NS_PER_S, &after))
            after = (struct job_look){0};
        diagnose(&before, &after);
    }
    if (raw && job_look(&job, 2, &after))
        diagnose(&before, &after);
    job_look_free(&before);
    job_look_free(&after);
    job_free(&job);
    return 0;
}
