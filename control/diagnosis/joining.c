/* SPDX-License-Identifier: Apache-2.0 */
/* Rule: ranks that have been joining for long, and the ranks that have not come. */
#include "diagnosis/rules.h"
#include "diagnosis/thresholds.h"
#include "diagnosis/phrase.h"

#include <stdlib.h>
#include <string.h>

struct joiner {
    uint64_t meeting, age; /* clocks of hosts do not compare; the times that they measure do */
    int rank, nranks;
};

static int by_meeting(const void *left, const void *right)
{
    const struct joiner *a = left, *b = right;
    if (a->meeting != b->meeting)
        return a->meeting < b->meeting ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static bool is_over(const struct blackbox *box, size_t from)
{
    const struct blackbox_event *begun = &box->events[from];
    for (size_t i = from + 1; i < box->event_count; i++)
        if (box->events[i].kind == WIRE_EVENT_JOIN_END && box->events[i].comm == begun->comm &&
            box->events[i].peer_rank == begun->peer_rank)
            return true;
    return false;
}

static size_t gather(const struct blackbox *box, struct joiner *joiners)
{
    size_t count = 0;
    for (size_t i = 0; box->alive && i < box->event_count; i++) {
        const struct blackbox_event *event = &box->events[i];
        bool sane = event->value1 > 0 && event->value1 < 1 << 24 && event->peer_rank >= 0 &&
                    (uint64_t)event->peer_rank < event->value1;
        if (event->kind == WIRE_EVENT_JOIN && sane && !is_over(box, i))
            joiners[count++] = (struct joiner){event->comm, box->now > event->time ? box->now - event->time : 0,
                                               event->peer_rank, (int)event->value1};
    }
    return count;
}

/* Only the first missing ranks are looked for: a box may say that there are millions. */
static struct rank_list missing(const struct joiner *joiners, size_t count, int *first)
{
    struct rank_list list = {0};
    size_t at = 0, came = 0;
    *first = -1;
    for (size_t i = 0; i < count; i++)
        came += i == 0 || joiners[i].rank != joiners[i - 1].rank;
    for (int rank = 0; rank < joiners->nranks && list.count == list.named; rank++) {
        while (at < count && joiners[at].rank < rank)
            at++;
        if (at < count && joiners[at].rank == rank)
            continue;
        *first = *first < 0 ? rank : *first;
        list_rank(&list, rank);
    }
    list.count = (size_t)joiners->nranks - came;
    return list;
}

static void report(struct findings *findings, const struct joiner *joiners, size_t count)
{
    int first;
    uint64_t age = 0;
    for (size_t i = 0; i < count; i++)
        age = joiners[i].age > age ? joiners[i].age : age;
    struct rank_list list = missing(joiners, count, &first), here = {0};
    if (age < JOIN_NS || !list.count)
        return;
    struct finding *finding = finding_add_rank(findings, FINDING_JOINING, NULL, list.count == 1 ? first : -1);
    finding->confidence = LIKELY;
    finding->victims = count;
    for (size_t i = 0; i < count; i++)
        list_rank(&here, joiners[i].rank);
    say(finding, "rank%s%s %s not joined: %zu of %d ranks wait to make a communicator, for %s",
        list.count == 1 ? "" : "s", list_text(&list), list.count == 1 ? "has" : "have", count, joiners->nranks,
        phrase_time(age).text);
    prove(finding, "joining: rank%s%s", here.count == 1 ? "" : "s", list_text(&here));
}

void rule_joining(struct scene *scene, struct findings *findings)
{
    const struct look *look = &scene->snapshot->now;
    size_t most = 0, count = 0;
    for (size_t i = 0; i < look->count; i++)
        for (size_t j = 0; j < look->boxes[i]->event_count; j++)
            most += look->boxes[i]->events[j].kind == WIRE_EVENT_JOIN;
    struct joiner *joiners = calloc(most + 1, sizeof *joiners);
    for (size_t i = 0; joiners && i < look->count; i++)
        count += gather(look->boxes[i], joiners + count);
    if (count)
        qsort(joiners, count, sizeof *joiners, by_meeting);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1;
             end < count && joiners[end].meeting == joiners[i].meeting && joiners[end].nranks == joiners[i].nranks;)
            end++;
        report(findings, joiners + i, end - i);
    }
    free(joiners);
}
