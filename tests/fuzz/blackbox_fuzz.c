/* SPDX-License-Identifier: Apache-2.0 */
/* A black box may hold anything: its reader must answer or refuse, and the rules must find something or nothing.
 * Mutates a real box by the input's instructions, or takes the input itself as the box. */
#include "base/clock.h"
#include "diagnosis/network.h"
#include "diagnosis/profile.h"
#include "wire/blackbox.h"
#include "wire/boxread.h"
#include "wire/boxwatch.h"
#include "wire/boxwindow.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define COMMS    3
#define LANES    3
#define LANE_AT  (WIRE_BOX_COMM_AT + COMMS * WIRE_BOX_COMM_BYTES)
#define OPS      8 /* few of each: an input takes little time */
#define SEGMENTS 16
#define BYTES    (LANE_AT + LANES * WIRE_BOX_LANE_BYTES)

static void build(uint8_t *bytes)
{
    struct wire_box_header *header = (struct wire_box_header *)(void *)bytes;
    memset(bytes, 0, BYTES);
    *header =
        (struct wire_box_header){.magic = WIRE_BOX_MAGIC, .version = WIRE_BOX_VERSION, .header_bytes = sizeof *header};
    header->file_bytes = BYTES;
    header->events = (struct wire_box_section){WIRE_BOX_EVENT_AT, sizeof(struct wire_box_event), WIRE_BOX_EVENTS};
    header->comms = (struct wire_box_section){WIRE_BOX_COMM_AT, WIRE_BOX_COMM_BYTES, COMMS};
    header->ops = (struct wire_box_section){WIRE_BOX_PAGE, sizeof(struct wire_box_op), WIRE_BOX_OPS};
    header->counters = (struct wire_box_section){WIRE_BOX_COUNTER_AT, 8, WIRE_COUNTER_COUNT};
    header->lanes = (struct wire_box_section){LANE_AT, WIRE_BOX_LANE_BYTES, LANES};
    header->segments =
        (struct wire_box_section){WIRE_BOX_SEGMENT_AT, sizeof(struct wire_box_segment), WIRE_BOX_SEGMENTS};
    header->samples = WIRE_BOX_SAMPLE_AT;
    struct wire_box_samples *samples = (struct wire_box_samples *)(void *)(bytes + WIRE_BOX_SAMPLE_AT);
    *samples = (struct wire_box_samples){.stamp = 2, .count = 9};
    for (uint64_t i = 0; i < samples->count; i++) {
        samples->items[i] = (struct wire_box_sample){(i + 1) * 20 * NS_PER_S, i * 100, i * 1000};
        samples->called[i] = i * 500;
    }
    for (int i = 0; i < LANES; i++) {
        struct wire_box_lane *lane =
            (struct wire_box_lane *)(void *)(bytes + LANE_AT + (size_t)i * WIRE_BOX_LANE_BYTES);
        struct wire_box_segment *segments = (struct wire_box_segment *)(void *)((uint8_t *)lane + WIRE_BOX_SEGMENT_AT);
        struct wire_box_watch *watch = (struct wire_box_watch *)(void *)((uint8_t *)lane + WIRE_BOX_WATCH_AT);
        *lane = (struct wire_box_lane){.stamp = 2, .peer_pid = 1, .state = WIRE_LANE_UP};
        *watch = (struct wire_box_watch){.stamp = 2, .windows = 2, .slows = 1, .messages = 1};
        watch->least[0][1] = (struct wire_box_mark){.slot = 1, .end = 1000, .ns = 100, .bytes = 4096};
        watch->slow[0] = (struct wire_box_slow){.begin = 100, .end = 900, .ns = 800, .bytes = 4096, .windows = 1};
        for (uint64_t j = 0; j < SEGMENTS; j++)
            segments[j] = (struct wire_box_segment){.stamp = (j + 1) << 8 | WIRE_SEGMENT_LANDED,
                                                    .length = 4096,
                                                    .posted = j * 100,
                                                    .completed = j * 100 + 90};
    }
    for (int i = 0; i < COMMS; i++) {
        struct wire_box_comm *comm =
            (struct wire_box_comm *)(void *)(bytes + WIRE_BOX_COMM_AT + (size_t)i * WIRE_BOX_COMM_BYTES);
        struct wire_box_op *ops = (struct wire_box_op *)(void *)((uint8_t *)comm + WIRE_BOX_PAGE);
        *comm = (struct wire_box_comm){.stamp = 2, .nranks = 2, .state = WIRE_COMM_OPEN};
        for (uint64_t j = 0; j < OPS; j++) { /* the last one still runs */
            uint64_t state = j + 1 < OPS ? WIRE_OP_DONE | WIRE_OP_HAS_END : WIRE_OP_RUNNING | WIRE_OP_HAS_WAIT;
            ops[j] = (struct wire_box_op){
                .stamp = j << WIRE_OP_POSITION | state | WIRE_OP_HAS_NAME | WIRE_OP_HAS_START,
                .seq = j + 1,
                .begin = j * 100 + 1,
                .start = j * 100 + 1,
                .end = j * 100 + 91,
            };
        }
    }
}

/* All operations of a communicator become of one kind. */
static void fill(uint8_t *bytes, uint8_t comm, uint64_t what)
{
    size_t at = WIRE_BOX_COMM_AT + comm % COMMS * (size_t)WIRE_BOX_COMM_BYTES;
    struct wire_box_op *ops = (struct wire_box_op *)(void *)(bytes + at + WIRE_BOX_PAGE);
    for (uint64_t j = 0; j < OPS; j++)
        ops[j].what = what;
}

/* Where most decisions hang: the header, an event, a communicator, an operation, a lane. */
static size_t place(uint8_t kind, uint16_t offset)
{
    static const size_t starts[] = {
        0,       WIRE_BOX_EVENT_AT,           WIRE_BOX_COMM_AT,  WIRE_BOX_COMM_AT + WIRE_BOX_PAGE,
        LANE_AT, LANE_AT + WIRE_BOX_WATCH_AT, WIRE_BOX_SAMPLE_AT};
    size_t at = starts[(kind & 0x7f) % 7] + (kind & 0x80 ? offset : offset % 512);
    return at < BYTES - 8 ? at : 0;
}

static uint64_t visit_watch(const struct blackbox *box, const struct wire_box_watch *watch)
{
    double sum = 0;
    if (!watch)
        return 0;
    for (int kind = WATCH_LEAST; kind <= WATCH_MESSAGE; kind++)
        for (int span = 0; span < WIRE_WATCH_SPANS; span++) {
            const struct wire_box_mark *mark =
                watch_mark(watch, (enum watch_kind)kind, (enum wire_watch_span)span, box->now);
            sum += mark ? watch_rate(mark) + (double)strlen(window_cause_name((enum window_cause)mark->cause)) : 0;
        }
    for (size_t i = 0; watch_slow(watch, i); i++)
        sum += watch_slow_rate(watch_slow(watch, i));
    return watch_row(watch->rates, WIRE_WATCH_RATES, 0.5) + watch_row(watch->times, WIRE_WATCH_TIMES, 0.9) + (sum > 0);
}

static uint64_t visit(const struct blackbox *box)
{
    uint64_t sum = strlen(box->header.host) + strlen(box->header.command) + box->now + box->torn;
    for (size_t i = 0; i < box->counter_count; i++)
        sum += box->counters[i] + strlen(blackbox_counter_row(i)->metric);
    for (size_t i = 0; i < box->event_count; i++)
        sum += box->events[i].time + strlen(blackbox_event_row(box->events[i].kind)->name);
    for (size_t i = 0; i < box->comm_count; i++) {
        const struct blackbox_comm *comm = &box->comms[i];
        sum += strlen(comm->name) + strlen(comm->sentence) + comm->opened + comm->captured +
               blackbox_memory(comm, "device");
        for (size_t j = 0; j < comm->op_count; j++) {
            const struct blackbox_op *op = &comm->ops[j];
            sum += op->begin + op->end + op->head_since + op->sends_to + strlen(op->algorithm) +
                   strlen(blackbox_collective_name(op->collective)) + strlen(blackbox_type_name(op->type)) +
                   strlen(blackbox_op_name(op->op));
        }
    }
    for (size_t i = 0; i < box->lane_count; i++) {
        sum += strlen(box->lanes[i].transport) + box->lanes[i].opened + visit_watch(box, box->lanes[i].watch);
        for (size_t j = 0; j < box->lanes[i].segment_count; j++)
            sum += box->lanes[i].segments[j].position + box->lanes[i].segments[j].completed;
    }
    return sum;
}

/* As if two processes had written it, and a third one what is right. */
static void diagnose(struct blackbox *box, struct blackbox *right)
{
    struct blackbox *boxes[] = {box, right, box};
    const struct snapshot snapshot = {.now = {boxes, NULL, 3}, .before = {boxes, NULL, 3}, .stuck = 1};
    struct findings found = diagnosis_find(&snapshot);
    struct network_report report;
    struct profile profile;
    network_look(&snapshot, &report);
    network_free(&report);
    profile_look(&snapshot, snapshot.stuck, &profile);
    profile_free(&profile);
    findings_free(&found);
}

static void try_box(const void *bytes, size_t size, struct blackbox *right)
{
    struct blackbox *box = NULL;
    if (blackbox_parse(bytes, size, &box) != TUTTI_SUCCESS)
        return;
    volatile uint64_t sum = visit(box);
    (void)sum;
    diagnose(box, right);
    blackbox_free(box);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t *bytes;
    static struct blackbox *right;
    if (!bytes && !(bytes = malloc(BYTES)))
        return 0;
    build(bytes);
    if (!right && blackbox_parse(bytes, BYTES, &right) != TUTTI_SUCCESS)
        return 0;
    if (size && data[0] == 0xff) {
        try_box(data + 1, size - 1, right);
        return 0;
    }
    size_t length = BYTES;
    for (; size >= 12; data += 12, size -= 12) {
        uint16_t offset;
        memcpy(&offset, data + 2, sizeof offset);
        if (data[1] == 0x55)
            memcpy(&length, data + 4, 4);
        else if (data[1] == 0x56)
            fill(bytes, data[0], data[4]);
        else
            memcpy(bytes + place(data[0], (uint16_t)(offset & ~7u)), data + 4, 8);
    }
    try_box(bytes, length <= BYTES ? length : BYTES, right);
    return 0;
}
