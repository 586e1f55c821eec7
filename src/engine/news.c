/* SPDX-License-Identifier: Apache-2.0 */
/* What a team hears of its peers, and who wants to know. */
#include "engine/news.h"

#include "engine/team.h"

#include <stdio.h>

void team_on_news(struct team *team, void (*news)(void *context),
                  bool (*excuses)(void *context, const struct wire_abort *news), void *context)
{
    pthread_mutex_lock(&team->news_lock);
    team->news = news;
    team->excuses = excuses;
    team->news_context = context;
    pthread_mutex_unlock(&team->news_lock);
}

void team_tell_news(struct team *team)
{
    pthread_mutex_lock(&team->news_lock);
    if (team->news)
        team->news(team->news_context);
    pthread_mutex_unlock(&team->news_lock);
}

/* Operations on host memory need everybody. */
static bool is_excused(struct team *team, const struct wire_abort *news)
{
    pthread_mutex_lock(&team->news_lock);
    bool excused = team->excuses && team->excuses(team->news_context, news);
    pthread_mutex_unlock(&team->news_lock);
    return excused && atomic_load(&team->issued) == atomic_load(&team->completed);
}

bool team_excuses(struct team *team, const struct wire_abort *news)
{
    if (!is_excused(team, news))
        return false;
    if (atomic_load(&team->excused))
        return true;
    team->excused_culprit = news->culprit;
    snprintf(team->excused_sentence, sizeof team->excused_sentence, "%s", news->text);
    atomic_store_explicit(&team->excused, true, memory_order_release);
    team_tell_news(team);
    return true;
}
