/* SPDX-License-Identifier: Apache-2.0 */
/* The latest verdicts that began or ended, as answers to reports carry them to each host of the job. */
#ifndef TUTTI_MASTER_NEWS_H
#define TUTTI_MASTER_NEWS_H

#include "master/ledger.h"
#include "wire/verdicts.h"

#define NEWS_NS (60 * NS_PER_S) /* that news is told: agents come once a second, and each 30 s after failures */

struct news {
    struct verdict_list list; /* the latest, the oldest first */
    uint64_t since[VERDICTS_MOST];
    uint64_t total;
};

/* Draws the master's number. */
void news_open(struct news *news);
/* `day`: CLOCK_REALTIME, `now`: CLOCK_MONOTONIC. */
void news_add(struct news *news, const struct verdict *verdict, bool over, uint64_t day, uint64_t now);
/* News that is to be told at `now`. */
void news_recent(const struct news *news, uint64_t now, struct verdict_list *out);

#endif
