/* SPDX-License-Identifier: Apache-2.0 */
#include "master/news.h"

#include "base/clock.h"
#include "diagnosis/phrase.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

void news_open(struct news *news)
{
    *news = (struct news){.list = {.magic = VERDICTS_MAGIC, .version = VERDICTS_VERSION}};
    if (getrandom(&news->list.master, sizeof news->list.master, 0) != sizeof news->list.master)
        news->list.master = clock_ns() ^ (uint64_t)getpid() << 48;
}

static struct verdict_news *add_entry(struct news *news, uint64_t now)
{
    struct verdict_list *list = &news->list;
    if (list->count == VERDICTS_MOST) {
        memmove(list->news, list->news + 1, (VERDICTS_MOST - 1) * sizeof *list->news);
        memmove(news->since, news->since + 1, (VERDICTS_MOST - 1) * sizeof *news->since);
        list->count--;
    }
    news->since[list->count] = now;
    return &list->news[list->count++];
}

void news_add(struct news *news, const struct verdict *verdict, bool over, uint64_t day, uint64_t now)
{
    const struct culprit *culprit = &verdict->finding.culprit;
    struct verdict_news *out = add_entry(news, now);
    char ended[80] = "";
    *out = (struct verdict_news){.number = ++news->total,
                                 .verdict = verdict->number,
                                 .rank = culprit->rank < 0 ? -1 : culprit->world_rank,
                                 .process = culprit->pid,
                                 .over = over};
    if (over)
        snprintf(ended, sizeof ended, " is over, after %s", phrase_time(day - verdict->began).text);
    int length = snprintf(out->text, sizeof out->text, "verdict %llu%s: %s", (unsigned long long)verdict->number, ended,
                          verdict->finding.sentence);
    if (length >= (int)sizeof out->text) /* a list of ranks */
        memcpy(out->text + sizeof out->text - 4, "...", 4);
}

void news_recent(const struct news *news, uint64_t now, struct verdict_list *out)
{
    *out = news->list;
    out->count = 0;
    for (uint32_t i = 0; i < news->list.count; i++)
        if (now < news->since[i] + NEWS_NS)
            out->news[out->count++] = news->list.news[i];
}
