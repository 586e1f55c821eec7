/* SPDX-License-Identifier: Apache-2.0 */
#include "master/ledger.h"

#include <stdio.h>

/* Another kind of hang of the same culprit is no other verdict: a process that dies fails its communicators a moment
 * later. */
static bool is_same(const struct finding *a, const struct finding *b)
{
    return finding_is_hang(a->kind) == finding_is_hang(b->kind) && finding_same_culprit(a, b);
}

static bool is_confirmed(const struct verdict *verdict)
{
    if (!finding_is_hang(verdict->finding.kind))
        return verdict->found >= LEDGER_SLOW;
    return verdict->finding.confidence == CERTAIN || verdict->found >= LEDGER_SURE;
}

void verdict_say_again(struct verdict *verdict)
{
    struct finding *finding = &verdict->finding;
    if (*verdict->again && finding->evidence_count < FINDING_EVIDENCE)
        snprintf(finding->evidence[finding->evidence_count++], FINDING_LINE, "%s", verdict->again);
}

static void meet(struct ledger *ledger, const struct finding *finding, uint64_t day)
{
    for (size_t i = 0; i < ledger->count; i++) {
        struct verdict *verdict = &ledger->items[i];
        if (!is_same(&verdict->finding, finding))
            continue;
        verdict->finding = *finding;
        verdict_say_again(verdict);
        verdict->found += verdict->missed > 0; /* once in a look */
        verdict->missed = 0;
        return;
    }
    if (ledger->count == LEDGER_MOST)
        ledger->left_out++;
    else
        ledger->items[ledger->count++] = (struct verdict){.finding = *finding, .began = day, .found = 1};
}

/* A verdict that is not confirmed is dropped as soon as it is not found. */
static bool is_over(const struct verdict *verdict)
{
    return verdict->missed >= (verdict->number ? LEDGER_OVER : 1);
}

void ledger_update(struct ledger *ledger, const struct findings *findings, uint64_t day,
                   const struct ledger_events *events)
{
    size_t kept = 0;
    ledger->left_out = findings->left_out;
    for (size_t i = 0; i < ledger->count; i++)
        ledger->items[i].missed++;
    for (size_t i = 0; i < findings_faults(findings); i++)
        meet(ledger, &findings->items[i], day);
    for (size_t i = 0; i < ledger->count; i++) {
        struct verdict *verdict = &ledger->items[i];
        if (!verdict->number && !verdict->missed && is_confirmed(verdict)) {
            verdict->number = ++ledger->total;
            ledger->by_kind[verdict->finding.kind]++;
            events->begins(events->context, verdict);
        }
        if (!is_over(verdict))
            ledger->items[kept++] = *verdict;
        else if (verdict->number)
            events->ends(events->context, verdict);
    }
    ledger->count = kept;
}

size_t ledger_standing(const struct ledger *ledger)
{
    size_t count = 0;
    for (size_t i = 0; i < ledger->count; i++)
        count += ledger->items[i].number > 0;
    return count;
}
