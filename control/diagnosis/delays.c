/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rule: slow links, by the matrix of delays between workers (C4 section 3.1). A point that stands out is a link, a row
 * its source, a column its destination. Only messages of the most frequent size are compared. The messages of a program
 * decide what a row is: a rank that sends to two others has a row of two.
 *
 * A receive also waits for a sender that has not sent yet, as in a stage of a pipeline. A send also waits for a
 * receiver that is not ready. A message was on its way no longer than the shorter of the two, whatever the clocks say.
 */
#include "diagnosis/delays.h"

#include "diagnosis/lanes.h"
#include "diagnosis/rules.h"
#include "diagnosis/thresholds.h"
#include "diagnosis/phrase.h"

#include <stdlib.h>

struct delays_message {
    int from, to;
    bool sent; /* as the sender saw it */
    uint64_t bytes, ns;
};

static int by_pair(const struct delays_message *a, const struct delays_message *b)
{
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->to != b->to ? (a->to < b->to ? -1 : 1) : a->sent - b->sent;
}

static int by_bytes_and_pair(const void *left, const void *right)
{
    const struct delays_message *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    int pairs = by_pair(a, b);
    return pairs ? pairs : a->ns < b->ns ? -1 : a->ns > b->ns;
}

static int by_delay(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* The time of this rank's receives and sends, each from the end of the call before it. */
static size_t gather(const struct member *member, struct delays_message *messages)
{
    const struct blackbox_comm *comm = member->comm;
    uint64_t over = 0;
    size_t count = 0;
    for (size_t i = 0; i < comm->op_count; i++) {
        const struct blackbox_op *op = &comm->ops[i];
        uint64_t from = op->begin > over ? op->begin : over;
        bool sends = op->collective == WIRE_SEND;
        bool whole = (sends || op->collective == WIRE_RECV) && op->state == WIRE_OP_DONE && !op->result &&
                     !op->captured && op->root >= 0;
        if (whole)
            messages[count++] = (struct delays_message){.from = sends ? comm->rank : op->root,
                                                        .to = sends ? op->root : comm->rank,
                                                        .sent = sends,
                                                        .bytes = op->bytes,
                                                        .ns = op->end > from ? op->end - from : 0};
        over = op->end > over ? op->end : over;
    }
    return count;
}

/* Moves the messages of the most frequent size to the front. */
static size_t keep_one_size(struct delays_message *messages, size_t count)
{
    size_t best = 0, most = 0;
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && messages[end].bytes == messages[i].bytes;)
            end++;
        if (end - i > most)
            best = i, most = end - i;
    }
    for (size_t i = 0; i < most; i++)
        messages[i] = messages[best + i];
    return most;
}

static size_t fill_cells(const struct delays_message *messages, size_t count, struct delay *cells)
{
    size_t filled = 0;
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && by_pair(&messages[end], &messages[i]) == 0;)
            end++;
        const struct delays_message *middle = &messages[(i + end) / 2];
        struct delay *before = filled ? &cells[filled - 1] : NULL;
        if (end - i < DELAY_MESSAGES)
            continue;
        if (!middle->sent)
            cells[filled++] =
                (struct delay){.from = middle->from, .to = middle->to, .messages = end - i, .ns = middle->ns};
        else if (before && before->from == middle->from && before->to == middle->to && middle->ns < before->ns)
            before->ns = middle->ns;
    }
    return filled;
}

/* Returns the median of all cells; 0: too few to compare. */
static uint64_t mark_slow(struct delay *cells, size_t count)
{
    uint64_t *delays = calloc(count + 1, sizeof *delays), median = 0;
    for (size_t i = 0; delays && i < count; i++)
        delays[i] = cells[i].ns;
    if (delays && count >= DELAY_LINKS) {
        qsort(delays, count, sizeof *delays, by_delay);
        median = delays[count / 2] ? delays[count / 2] : 1;
        for (size_t i = 0; i < count; i++)
            cells[i].slow = cells[i].ns > median + DELAY_MORE_NS && (double)cells[i].ns > DELAY_TIMES * (double)median;
    }
    free(delays);
    return median;
}

/* ---- Rows, columns, points ---- */

static bool in_line(const struct delay *cell, int rank, bool row)
{
    return (row ? cell->from : cell->to) == rank;
}

static void report(struct findings *findings, struct member_group *group, enum finding_kind kind, int rank,
                   const struct delay *cell, uint64_t median)
{
    const struct member *member = scene_find(group, rank);
    struct finding *finding = member ? finding_add(findings, kind, LIKELY, member)
                                     : finding_add_rank(findings, kind, group->members->comm, rank);
    if (member)
        say_who(finding, member);
    else
        say(finding, "rank %d", rank);
    if (kind == FINDING_LINK) {
        finding->culprit.peer = cell->to;
        say(finding, ": what it sends to rank %d of communicator %s", cell->to, phrase_name(group->members->comm));
    } else {
        say(finding, ": what it %s in communicator %s", kind == FINDING_SENDER ? "sends" : "receives",
            phrase_name(group->members->comm));
    }
    say(finding, " takes %s, elsewhere messages of that size take %s", phrase_time(cell->ns).text,
        phrase_time(median).text);
}

static void judge_line(struct findings *findings, struct member_group *group, struct delay *cells, size_t count,
                       int rank, bool row, uint64_t median)
{
    size_t all = 0, slow = 0;
    const struct delay *one = NULL;
    for (size_t i = 0; i < count; i++)
        if (in_line(&cells[i], rank, row)) {
            all++;
            slow += cells[i].slow && !cells[i].told;
            one = cells[i].slow ? &cells[i] : one;
        }
    if (all < 2 || slow < 2 || (double)slow < DELAY_LINE * (double)all)
        return;
    report(findings, group, row ? FINDING_SENDER : FINDING_RECEIVER, rank, one, median);
    for (size_t i = 0; i < count; i++)
        cells[i].told = cells[i].told || (in_line(&cells[i], rank, row) && cells[i].slow);
}

static void judge(struct findings *findings, struct member_group *group, struct delay *cells, size_t count,
                  uint64_t median)
{
    for (size_t i = 0; i < count && findings->count < FINDINGS_MOST; i++)
        if (cells[i].slow && !cells[i].told) {
            judge_line(findings, group, cells, count, cells[i].from, true, median);
            if (!cells[i].told)
                judge_line(findings, group, cells, count, cells[i].to, false, median);
        }
    for (size_t i = 0; i < count; i++) {
        if (!cells[i].slow || cells[i].told)
            continue;
        if (findings->count < FINDINGS_MOST)
            report(findings, group, FINDING_LINK, cells[i].from, &cells[i], median);
        else
            findings->left_out++;
    }
}

void delays_open(struct delays *delays, const struct member_group *group)
{
    size_t most = 0, count = 0;
    for (size_t i = 0; i < group->count; i++)
        most += group->members[i].comm->op_count;
    struct delays_message *messages = calloc(most + 1, sizeof *messages);
    *delays = (struct delays){.cells = calloc(most + 1, sizeof *delays->cells)};
    for (size_t i = 0; messages && delays->cells && i < group->count; i++)
        count += gather(&group->members[i], messages + count);
    if (count) {
        qsort(messages, count, sizeof *messages, by_bytes_and_pair);
        count = keep_one_size(messages, count);
        delays->bytes = messages->bytes;
        delays->count = fill_cells(messages, count, delays->cells);
        delays->median = mark_slow(delays->cells, delays->count);
    }
    free(messages);
}

/* Leaves to lanes.c what its rule has judged: segments tell more than messages, which also wait for each other. */
static void leave_to_lanes(struct member_group *group, struct delays *delays)
{
    for (size_t i = 0; i < delays->count; i++) {
        struct delay *cell = &delays->cells[i];
        const struct member *from = scene_find(group, cell->from), *to = scene_find(group, cell->to);
        cell->told = from && to && cell->slow && lanes_tell(from, to);
    }
}

/* Messages are late because of a hang, a slow rank or a starved one, where one was found. */
void rule_delays(struct scene *scene, struct findings *findings)
{
    size_t before = findings->count;
    for (size_t i = 0; !before && i < scene->group_count; i++) {
        struct delays delays;
        delays_open(&delays, &scene->groups[i]);
        for (size_t j = 0; j < scene->groups[i].count; j++)
            scene->steps += scene->groups[i].members[j].comm->op_count;
        if (delays.median) {
            leave_to_lanes(&scene->groups[i], &delays);
            judge(findings, &scene->groups[i], delays.cells, delays.count, delays.median);
        }
        free(delays.cells);
    }
}
