/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memos from rank to rank: messages that are no operations. They know nothing of the queue and of the team's failure.
 * Ranks of this process hear at once, from inside: `hear` may answer a memo with one that nobody answers, and no more.
 * Members of a generation answer twice more: propose, accept, decided; or ask, promise, ask again, promise
 * (src/comm/consent.c).
 */
#include "engine/memos.h"

#include "base/poller.h"
#include "engine/failure.h"
#include "engine/links.h"
#include "engine/team.h"

#include <stdio.h>
#include <string.h>

void team_on_memos(struct team *team, memo_fn *hear, void *context)
{
    lock_take(&team->engine->lock);
    team->hear = hear;
    team->hear_context = context;
    lock_release(&team->engine->lock);
}

static struct team *memos_find(struct engine *engine, uint64_t comm, uint32_t rank)
{
    list_each(node, &engine->teams)
    {
        struct team *team = list_entry(node, struct team, node);
        if (team->id == comm && (uint32_t)team->rank == rank)
            return team->hear ? team : NULL;
    }
    return NULL;
}

/* The answer of a rank that has the communicator no more: a wait for that rank is in vain. */
static struct wire_memo nobody_there(const struct engine *engine, int rank, const struct wire_memo *memo)
{
    struct wire_memo answer = {.kind = WIRE_MEMO_LEAVE, .yours = memo->visit};
    answer.why = (struct wire_abort){.culprit = rank, .result = TUTTI_REMOTE_ERROR, .cause = WIRE_CAUSE_ERROR};
    memcpy(answer.why.from, link_domain_self(engine->links)->uuid, sizeof answer.why.from);
    snprintf(answer.why.text, sizeof answer.why.text, "rank %d has destroyed the communicator", rank);
    return answer;
}

void memos_over(struct engine *engine, uint64_t comm)
{
    engine->over[engine->overs++ % ENGINE_OVER] = comm;
}

/* What a member of a generation asks that has ended here with a next one: it was left out of that. One that this
 * process has left, and that goes on without it, is none of these. A team that is not open yet says nothing. */
static bool over_there(const struct engine *engine, uint64_t comm, const struct wire_memo *memo,
                       struct wire_memo *answer)
{
    bool asks = memo->kind == WIRE_MEMO_CONSENT && memo->consent.what == WIRE_MEMBER_ASKS;
    *answer = (struct wire_memo){.kind = WIRE_MEMO_CONSENT, .consent.what = WIRE_MEMBER_DECIDED};
    for (unsigned i = 0; asks && i < ENGINE_OVER && i < engine->overs; i++)
        if (engine->over[i] == comm)
            return true;
    return false;
}

static tutti_result_t say_here(struct team *team, int to, const struct wire_memo *memo)
{
    struct team *sibling = memos_find(team->engine, team->id, (uint32_t)to);
    struct wire_memo answer = nobody_there(team->engine, to, memo);
    if (sibling)
        sibling->hear(sibling->hear_context, team->rank, memo);
    else if (memo->kind == WIRE_MEMO_COME && team->hear)
        team->hear(team->hear_context, to, &answer);
    else if (over_there(team->engine, team->id, memo, &answer) && team->hear)
        team->hear(team->hear_context, to, &answer);
    poller_wake(team->engine->poller);
    return TUTTI_SUCCESS;
}

tutti_result_t team_say(struct team *team, int to, const struct wire_memo *memo)
{
    struct link *link;
    struct wire_tag tag = {.comm = team->id, .from = (uint32_t)team->rank, .to = (uint32_t)to};
    if (team_is_here(team, to))
        return say_here(team, to, memo);
    tutti_result_t result = team_link(team, to, &link);
    if (result != TUTTI_SUCCESS)
        return result;
    if (memo->kind == WIRE_MEMO_COME &&
        atomic_load(&team->failed)) { /* else it might wait for us in an operation for ever */
        struct wire_abort news = team_news(team);
        link_abort(link, team->id, &news);
    }
    link_memo(link, &tag, memo);
    return TUTTI_SUCCESS;
}

void memos_heard(void *context, struct link *link, const struct wire_tag *tag, const struct wire_memo *memo)
{
    struct engine *engine = context;
    struct team *team = memos_find(engine, tag->comm, tag->to);
    if (!team) {
        struct wire_memo answer = nobody_there(engine, (int)tag->to, memo);
        struct wire_tag back = {.comm = tag->comm, .from = tag->to, .to = tag->from};
        if (memo->kind == WIRE_MEMO_COME || over_there(engine, tag->comm, memo, &answer))
            link_memo(link, &back, &answer);
    } else if (tag->from < (uint32_t)team->nranks &&
               wire_same_process(team_row(team, tag->from)->uuid, link_peer(link)->uuid)) {
        team->hear(team->hear_context, (int)tag->from, memo);
    }
}
