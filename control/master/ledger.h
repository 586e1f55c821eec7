/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verdicts that stand: findings of one look after another go in, new and ended verdicts come out. Uncertain findings
 * must be found in two looks, because hosts report the same event one after another. Slow ranks must be found in three,
 * because chance makes another one slow every second. What is found no more for several looks is over.
 */
#ifndef TUTTI_MASTER_LEDGER_H
#define TUTTI_MASTER_LEDGER_H

#include "diagnosis/diagnosis.h"

#define LEDGER_MOST 256 /* verdicts: all that FINDINGS_MOST of a look leave until LEDGER_OVER looks have passed */
#define LEDGER_SURE 2   /* looks in a row that must find a hang that is not certain */
#define LEDGER_SLOW 3   /* looks in a row that must find what is slow */
#define LEDGER_OVER 3   /* looks in a row that do not find it */

struct verdict {
    struct finding finding; /* the latest finding */
    uint64_t began, number; /* CLOCK_REALTIME in ns; the number of the verdict, from 1: 0 while it is not confirmed */
    int64_t row;            /* its row in the history; 0: none */
    unsigned found, missed; /* looks in a row */
    bool acted;             /* the hook has heard of it */
    char again[160];        /* earlier verdicts about its host; "": none, or no history */
};

struct ledger {
    struct verdict items[LEDGER_MOST];
    size_t count;
    size_t left_out; /* findings of the latest look that have no place */
    uint64_t total;  /* numbers so far */
    uint64_t by_kind[FINDING_KINDS];
};

struct ledger_events {
    void *context;
    void (*begins)(void *context, struct verdict *verdict);
    void (*ends)(void *context, const struct verdict *verdict);
};

/* `day`: CLOCK_REALTIME. */
void ledger_update(struct ledger *ledger, const struct findings *findings, uint64_t day,
                   const struct ledger_events *events);
/* Puts what is known of earlier verdicts under the finding. */
void verdict_say_again(struct verdict *verdict);
/* Verdicts that stand. */
size_t ledger_standing(const struct ledger *ledger);

#endif
