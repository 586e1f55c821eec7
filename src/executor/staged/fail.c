/* SPDX-License-Identifier: Apache-2.0 */
/* How channels fail together, and what may still begin then. */
#include "executor/staged/fail.h"

#include "base/error.h"
#include "engine/failure.h"
#include "engine/wait.h"

/* Which operations of one team still end says nothing of another team's: peers tell each team that. */
static void hear_cause(struct team *team, const struct team *failed)
{
    struct wire_abort news = team_news(failed);
    news.finished = UINT32_MAX;
    team_hear(team, &news);
}

/* The communicator's team tells. Any thread, any lock. */
void channels_spread_failure(void *context)
{
    struct staged *staged = context;
    const struct team *team = staged->base.team;
    if (!atomic_load_explicit(&team->failed, memory_order_acquire))
        return;
    for (int i = 1; i < staged->channels; i++)
        hear_cause(staged->channel[i].team, team);
}

void channels_stop(struct staged *staged)
{
    for (int i = 0; i < staged->channels; i++)
        team_stop(staged->channel[i].team);
}

bool channels_begin(const struct staged *staged, const struct job *job)
{
    return !atomic_load_explicit(&staged->base.team->failed, memory_order_acquire) ||
           (!job->items && !job->asked && !job->dynamic && team_takes_collective(staged->base.team));
}

void channel_fail(struct channel *channel, tutti_result_t result)
{
    struct staged *staged = channel->staged;
    struct team *team = channel->team;
    if (team != staged->base.team && atomic_load_explicit(&team->failed, memory_order_acquire))
        hear_cause(staged->base.team, team);
    else
        team_fail(staged->base.team, result, staged->base.team->rank, error_last());
    channels_stop(staged); /* the other parts of the job end, too: peers may come to none of it any more */
    team_wait(team, atomic_load(&team->issued)); /* all withdrawn: links touch no slice any more */
    if (channel->rail)
        team_wait(channel->rail, atomic_load(&channel->rail->issued));
    if (staged->copies)
        return;
    staged->base.cu->StreamSynchronize(channel->in);
    staged->base.cu->StreamSynchronize(channel->out);
}

tutti_result_t channel_mark(struct channel *channel, CUevent event, CUstream stream)
{
    if (channel->staged->copies)
        return TUTTI_SUCCESS;
    return cuda_check(channel->staged->base.cu->EventRecord(event, stream), "marking a copy");
}
