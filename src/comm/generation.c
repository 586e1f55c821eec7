/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generations. Words of the consent are memos, which work also when the communicator has failed. A word to a member
 * that has not opened the generation yet is lost, so whoever asks says so again until all have answered.
 */
#include "comm/generation.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/param.h"
#include "base/random.h"
#include "engine/collective.h"
#include "engine/failure.h"
#include "engine/links.h"
#include "engine/memos.h"
#include "engine/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPEAT_MS 100 /* between two times of the same words */
#define LOOK_MS   5   /* between two looks at what wakes nobody */
#define ALONE_MS  200 /* in which words may still come of members that are gone, before this one goes on alone */

/* ---- Words ---- */

static void generation_say(void *context, int to, const struct consent_word *word)
{
    struct generation *generation = context;
    struct wire_memo memo = {.kind = WIRE_MEMO_CONSENT,
                             .consent = {.what = word->kind,
                                         .ballot = word->ballot,
                                         .finished = word->finished,
                                         .accepted = word->accepted,
                                         .at = word->at,
                                         .turn = word->value.turn,
                                         .child = word->value.child}};
    _Static_assert(sizeof memo.consent.set * 8 == CONSENT_MOST, "a bit for each member");
    for (size_t i = 0; i < sizeof memo.consent.set; i++)
        memo.consent.set[i] = (uint8_t)(word->value.set.word[i / 8] >> i % 8 * 8);
    team_say(generation->comm->team, to, &memo); /* one that is gone is looked for elsewhere */
}

static uint64_t patience_of(const struct generation *generation)
{
    return generation->timeout / 4;
}

static bool member_is_gone(const struct generation *generation, int rank)
{
    struct team *team = generation->comm->team;
    struct link *link;
    if (rank == team->rank)
        return false;
    if (atomic_load(&generation->left[rank]) || atomic_load(&team->gone[rank]))
        return true;
    return !team_is_here(team, rank) && team_link(team, rank, &link) == TUTTI_SUCCESS && link_is_lost(link);
}

/* Before anything of it is told: members to whom no lane has been up for a while. They may live, and reach others. */
static void see_lost(struct generation *generation)
{
    const struct team *team = generation->comm->team;
    uint64_t now = clock_ns();
    memset(&generation->consent.lost, 0, sizeof generation->consent.lost);
    for (int rank = 0; rank < generation->members; rank++)
        if (rank != team->rank && team->link[rank] &&
            (link_is_lost(team->link[rank]) || link_down(team->link[rank], now) > patience_of(generation)))
            consent_add(&generation->consent.lost, rank);
}

const char *generation_names(const struct generation *of, const struct consent_set *set, const char *what,
                             char text[240])
{
    int used = snprintf(text, 240, "%s", what), count = 0;
    for (int rank = 0; rank < of->members; rank++)
        if (consent_has(set, rank) && ++count <= 16)
            used += snprintf(text + used, 240 - (size_t)used, " %d", of->member[rank].number);
    if (count > 16)
        snprintf(text + used, 240 - (size_t)used, " and more");
    return count ? text : "";
}

/* Because of what a member says: it has left itself, or misses others. */
static void stop_for(struct generation *generation, int from)
{
    char sentence[TEAM_SENTENCE], names[240];
    struct consent_set gone = {{0}};
    bool left = atomic_load(&generation->left[from]);
    for (int rank = 0; rank < generation->members && !left; rank++)
        if (member_is_gone(generation, rank))
            consent_add(&gone, rank);
    const char *which = generation_names(generation, &gone, ": gone are members", names);
    snprintf(sentence, sizeof sentence, "member %d %s%s; the members that are here agree on the next generation",
             generation->member[from].number, left ? "has left the group" : "ends the generation, as it misses others",
             which);
    if (!atomic_load(&generation->comm->team->failed))
        team_fail(generation->comm->team, TUTTI_REMOTE_ERROR, -1, sentence);
    if (generation->data && generation->data->team && !atomic_load(&generation->data->team->failed))
        team_fail(generation->data->team, TUTTI_REMOTE_ERROR, -1, sentence);
}

static void generation_hear(void *context, int from, const struct wire_memo *memo)
{
    struct generation *generation = context;
    const struct wire_consent *said = &memo->consent;
    struct consent_word word = {.kind = said->what,
                                .ballot = said->ballot,
                                .finished = said->finished,
                                .accepted = said->accepted,
                                .at = said->at,
                                .value = {.turn = said->turn, .child = said->child}};
    if (from == generation->consent.me)
        return;
    if (said->what == WIRE_MEMBER_LEFT) {
        atomic_store(&generation->left[from], 1);
        if (said->finished < generation->consent.at)
            stop_for(generation, from); /* this turn waits for it in vain */
        return;
    }
    for (int member = 0; member < generation->members; member++)
        if (said->set[member / 8] >> member % 8 & 1)
            consent_add(&word.value.set, member);
    bool works = !generation->consent.open;
    if (word.kind == CONSENT_ASK) /* it answers at once: the caller may be busy telling of the failure */
        see_lost(generation);
    consent_hear(&generation->consent, from, &word);
    if (works && (generation->consent.open || generation->consent.asked))
        stop_for(generation, from);
}

/* Both fail before either is waited for. Nothing of the user's is touched any more, or the error says what may be. */
static tutti_result_t give_up(struct generation *generation)
{
    struct tutti_comm *both[] = {generation->comm, generation->data};
    int count = both[1] && both[1] != both[0] ? 2 : 1;
    char sentence[TEAM_SENTENCE];
    tutti_result_t result = TUTTI_SUCCESS;
    snprintf(sentence, sizeof sentence, "the generation ends: %s", error_last());
    char *noticed = strstr(sentence, " (noticed by ");
    if (noticed)
        *noticed = 0; /* what fails here adds its own */
    for (int i = 0; i < count; i++)
        if (!atomic_load(&both[i]->team->failed))
            team_fail(both[i]->team, TUTTI_REMOTE_ERROR, both[i]->team->rank, sentence);
    for (int i = 0; i < count; i++) {
        tutti_result_t settled = comm_abort(both[i], true);
        result = result == TUTTI_SUCCESS ? settled : result;
    }
    return result;
}

void generation_leave(struct generation *generation, bool fails)
{
    if (fails)
        give_up(generation);
    struct team *team = generation->comm->team;
    struct wire_memo memo = {.kind = WIRE_MEMO_CONSENT,
                             .consent = {.what = WIRE_MEMBER_LEFT, .finished = generation->consent.finished}};
    lock_take(&team->engine->lock);
    for (int rank = 0; rank < generation->members; rank++)
        if (rank != team->rank && !atomic_load(&team->gone[rank]))
            team_say(team, rank, &memo);
    lock_release(&team->engine->lock);
}

void generation_enter(struct generation *generation, uint32_t turn)
{
    lock_take(&generation->comm->engine->lock);
    if (turn && generation->consent.asked)
        see_lost(generation);
    consent_enter(&generation->consent, turn);
    for (int rank = 0; turn && rank < generation->members; rank++)
        if (atomic_load(&generation->left[rank]))
            stop_for(generation, rank);
    lock_release(&generation->comm->engine->lock);
}

/* ---- Opening ---- */

static int generation_by_unit(const struct generation *generation, int rank)
{
    for (int other = 0; other < rank; other++)
        if (generation->member[other].unit == generation->member[rank].unit)
            return generation->unit[other];
    return -1;
}

/* Units have the same shards, each once; so all of one shard are as many as units. */
static tutti_result_t generation_check_units(const struct generation *generation)
{
    int shards = 0, holders = 0;
    for (int rank = 0; rank < generation->members; rank++) {
        const struct generation_member *mine = &generation->member[rank];
        shards += generation->unit[rank] == 0;
        holders = 0;
        for (int other = 0; other < generation->members; other++) {
            const struct generation_member *its = &generation->member[other];
            holders += its->shard == mine->shard;
            if (other != rank && its->unit == mine->unit && its->shard == mine->shard)
                return error_set(TUTTI_INVALID_ARGUMENT, "members %d and %d both hold shard %d of unit %d",
                                 mine->number, its->number, mine->shard, mine->unit);
        }
        if (holders != generation->units)
            return error_set(TUTTI_INVALID_ARGUMENT,
                             "%d members hold shard %d, and there are %d units; each unit must hold the same shards",
                             holders, mine->shard, generation->units);
    }
    return shards * generation->units == generation->members
               ? TUTTI_SUCCESS
               : error_set(TUTTI_INVALID_ARGUMENT, "%d members are not %d units of %d shards", generation->members,
                           generation->units, shards);
}

tutti_result_t generation_open(struct tutti_comm *comm, const struct generation_member *member, int minimum,
                               uint64_t timeout, uint32_t turn, struct generation **out)
{
    struct team *team = comm->team;
    size_t count = (size_t)team->nranks;
    struct generation *generation = calloc(1, sizeof *generation);
    if (generation) {
        *generation = (struct generation){.comm = comm, .members = team->nranks, .timeout = timeout};
        generation->member = calloc(count, sizeof *generation->member);
        generation->unit = calloc(count, sizeof *generation->unit);
        generation->cut = calloc(count, sizeof *generation->cut);
        generation->left = calloc(count, sizeof *generation->left);
    } else
        comm_free(comm);
    *out = generation;
    if (!generation || !generation->member || !generation->unit || !generation->cut || !generation->left)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %zu members", count);
    memcpy(generation->member, member, count * sizeof *member);
    for (int rank = 0; rank < generation->members; rank++) {
        int known = generation_by_unit(generation, rank);
        generation->unit[rank] = known < 0 ? generation->units++ : known;
    }
    consent_begin(&generation->consent, generation->members, team->rank, minimum, generation->unit, generation->cut,
                  generation_say, generation);
    generation->consent.finished = turn;
    lock_take(&team->engine->lock);
    comm->meeting.consents_context = generation;
    comm->meeting.consents = generation_hear;
    lock_release(&team->engine->lock);
    return generation_check_units(generation);
}

static struct comm_settings settings_after(const struct generation *old, uint64_t deadline)
{
    const struct comm_settings *settings = &old->comm->settings;
    return (struct comm_settings){.blocking = 1,
                                  .timeout_ms = settings->timeout_ms,
                                  .bound = settings->bound,
                                  .executor = settings->executor,
                                  .on_host = settings->on_host,
                                  .deadline = deadline};
}

/* A communicator of those ranks of `of`, whose team is open. */
static tutti_result_t child_of(const struct generation *of, struct comm_settings settings, const int *rank, int count,
                               uint64_t id, struct tutti_comm **out)
{
    struct tutti_comm *child = NULL;
    struct team *team = of->comm->team;
    settings.nranks = count;
    for (int i = 0; i < count; i++)
        settings.rank = rank[i] == team->rank ? i : settings.rank;
    tutti_result_t result = comm_new(&settings, &child);
    if (result != TUTTI_SUCCESS)
        return result;
    child->choices = choice_share(of->comm->choices);
    snprintf(child->settings.name, sizeof child->settings.name, "elastic-%04x", (unsigned)(id & 0xffff));
    result = comm_open_team(child, id, &(struct team_members){.of = team, .rank = rank});
    if (result == TUTTI_SUCCESS)
        *out = child;
    else
        comm_free(child);
    return result;
}

tutti_result_t generation_follow(const struct generation *old, uint64_t deadline, struct generation **out)
{
    const struct consent_value *value = &old->consent.value;
    int *rank = malloc((size_t)old->members * sizeof *rank), count = 0;
    struct generation_member *member = malloc((size_t)old->members * sizeof *member);
    struct tutti_comm *comm = NULL;
    tutti_result_t result =
        rank && member ? TUTTI_SUCCESS : error_set(TUTTI_SYSTEM_ERROR, "no memory for %d members", old->members);
    for (int i = 0; i < old->members && result == TUTTI_SUCCESS; i++)
        if (consent_has(&value->set, i)) {
            member[count] = old->member[i];
            rank[count++] = i;
        }
    if (result == TUTTI_SUCCESS)
        result = child_of(old, settings_after(old, deadline), rank, count, value->child, &comm);
    if (result == TUTTI_SUCCESS)
        result = generation_open(comm, member, old->consent.minimum, old->timeout, value->turn, out);
    free(rank);
    free(member);
    return result;
}

/* ---- Making ---- */

void generation_set_due(struct generation *generation, uint64_t due)
{
    atomic_store(&generation->comm->team->due, due);
    if (generation->data)
        atomic_store(&generation->data->team->due, due);
}

static tutti_result_t make_data(struct generation *generation, uint64_t deadline)
{
    const struct generation_member *mine = &generation->member[generation->comm->team->rank];
    struct comm_settings settings = settings_after(generation, deadline);
    int *rank = malloc((size_t)generation->members * sizeof *rank), count = 0;
    tutti_result_t result =
        rank ? TUTTI_SUCCESS : error_set(TUTTI_SYSTEM_ERROR, "no memory for %d members", generation->members);
    for (int i = 0; i < generation->members && rank; i++)
        if (generation->member[i].shard == mine->shard)
            rank[count++] = i;
    struct tutti_comm *data = NULL;
    if (result == TUTTI_SUCCESS && count == generation->members && !settings.on_host)
        data = generation->comm;
    else if (result == TUTTI_SUCCESS) {
        settings.on_host = false;
        result =
            child_of(generation, settings, rank, count, mix64(generation->comm->id + 1 + (uint32_t)mine->shard), &data);
    }
    free(rank);
    lock_take(&generation->comm->engine->lock);
    generation->data = data;
    lock_release(&generation->comm->engine->lock);
    return result;
}

static tutti_result_t make_comm(struct tutti_comm *comm)
{
    if (atomic_load(&comm->state) == COMM_READY)
        return TUTTI_SUCCESS;
    tutti_result_t result = share_all(comm);
    if (result == TUTTI_SUCCESS)
        atomic_store_explicit(&comm->state, COMM_READY, memory_order_release);
    return result;
}

tutti_result_t generation_make(struct generation *generation, uint64_t deadline)
{
    if (generation->made)
        return TUTTI_SUCCESS;
    generation->comm->settings.deadline = deadline;
    generation_set_due(generation, deadline);
    tutti_result_t result = make_comm(generation->comm);
    if (result == TUTTI_SUCCESS && !generation->data)
        result = make_data(generation, deadline);
    if (result == TUTTI_SUCCESS) {
        generation_set_due(generation, deadline);
        result = make_comm(generation->data);
    }
    generation->made = result == TUTTI_SUCCESS;
    return result;
}

tutti_result_t generation_finish(struct generation *generation, uint32_t turn)
{
    struct engine *engine = generation->comm->engine;
    int32_t done = 1;
    lock_take(&engine->lock);
    bool may = consent_finish(&generation->consent, turn);
    lock_release(&engine->lock);
    if (!may)
        return error_note(TUTTI_REMOTE_ERROR, "another member ends the generation, as it misses others");
    return team_do(
        generation->comm->team,
        &(struct call){
            .coll = COLL_ALLREDUCE, .type = TUTTI_INT32, .count = 1, .op = TUTTI_MIN, .in = &done, .out = &done});
}

/* ---- The end ---- */

struct ending {
    struct generation *generation;
    uint64_t opened, until, repeat, looked, take_over, alone;
    uint32_t promised; /* of which `take_over` is */
    bool too_few;
};

/* Living members with lower ranks. */
static int living_below(const struct generation *generation)
{
    int count = 0;
    for (int rank = 0; rank < generation->consent.me; rank++)
        count += !member_is_gone(generation, rank);
    return count;
}

static void begin_asking(struct ending *ending, uint64_t now)
{
    uint64_t least = now + patience_of(ending->generation);
    ending->until = ending->until > least ? ending->until : least;
    ending->repeat = now + REPEAT_MS * NS_PER_MS;
    ending->alone = now + ALONE_MS * NS_PER_MS;
    see_lost(ending->generation);
    consent_ask(&ending->generation->consent);
}

/* Of one that asks. Members that are gone or late are waited for no longer. */
static void go_on_asking(struct ending *ending, uint64_t now)
{
    struct consent *consent = &ending->generation->consent;
    int awaited = 0, gone = 0;
    uint64_t child;
    for (int rank = 0; rank < consent->members; rank++)
        if (rank != consent->me && consent_awaits(consent, rank)) {
            bool away = member_is_gone(ending->generation, rank);
            awaited += !away;
            gone += away;
        }
    if (now >= ending->repeat) {
        ending->repeat = now + REPEAT_MS * NS_PER_MS;
        consent_repeat(consent);
    }
    if (consent->proposes && (gone || now >= ending->until)) {
        ending->until = now;
        begin_asking(ending, now);
    }
    bool alone = gone == consent->members - 1;
    if (consent->proposes || (awaited && now < ending->until) || (alone && now < ending->alone))
        return;
    ending->until = now + patience_of(ending->generation);
    if (random_bytes(&child, sizeof child) != TUTTI_SUCCESS || !consent_conclude(consent, mix64(child)))
        ending->too_few = true;
}

/* Of one that follows: the living member with the lowest rank asks at once, the others in turn if no end comes. */
static void ending_follow(struct ending *ending, uint64_t now)
{
    const struct consent *consent = &ending->generation->consent;
    uint64_t patience = patience_of(ending->generation);
    if (consent->promised != ending->promised) {
        ending->promised = consent->promised;
        ending->take_over = (ending->until > now ? ending->until : now) + patience;
    }
    bool lost = consent->promised && member_is_gone(ending->generation, consent_asker(consent, consent->promised));
    uint64_t from = consent->promised && !lost ? ending->take_over : ending->opened;
    if (now >= from + (uint64_t)living_below(ending->generation) * patience / 2)
        begin_asking(ending, now);
}

/* Of those who have answered. */
static bool misses_others(const struct consent *consent, int rank)
{
    uint64_t missed = 0;
    for (int i = 0; i < CONSENT_WORDS; i++)
        missed |= consent->cut[rank].word[i] & consent->answered.word[i];
    return missed != 0;
}

static tutti_result_t say_too_few(const struct generation *generation)
{
    const struct consent *consent = &generation->consent;
    struct consent_set away = {{0}}, apart = {{0}};
    char names[240], cut[240];
    for (int rank = 0; rank < consent->members; rank++)
        if (rank != consent->me && consent_awaits(consent, rank))
            consent_add(&away, rank);
        else if (misses_others(consent, rank))
            consent_add(&apart, rank);
    return error_set(TUTTI_REMOTE_ERROR,
                     "%d of %d units are here and reach one another, and %d must be%s%s; the elastic group ends: raise "
                     "the timeout or lower the minimum of tutti_elastic_config_t",
                     consent_rest(consent), generation->units, consent->minimum,
                     generation_names(generation, &away, "; no answer came from members", names),
                     generation_names(generation, &apart, "; lanes are down among members", cut));
}

static tutti_result_t ending_look(struct ending *ending)
{
    struct generation *generation = ending->generation;
    uint64_t now = clock_ns();
    if (now - ending->looked > patience_of(generation) / 2) /* this process stood still: nobody else is late */
        ending->until += now - ending->looked;
    ending->looked = now;
    if (generation->consent.decided)
        return TUTTI_SUCCESS;
    if (generation->consent.ballot)
        go_on_asking(ending, now);
    else
        ending_follow(ending, now);
    if (generation->consent.decided)
        return TUTTI_SUCCESS;
    return ending->too_few ? say_too_few(generation) : TUTTI_IN_PROGRESS;
}

tutti_result_t generation_end(struct generation *generation, uint64_t due)
{
    struct engine *engine = generation->comm->engine;
    struct ending ending = {.generation = generation};
    lock_take(&engine->lock);
    see_lost(generation);
    consent_open(&generation->consent);
    lock_release(&engine->lock);
    tutti_result_t settled = give_up(generation);
    if (settled != TUTTI_SUCCESS)
        return error_note(settled, "%s; this member leaves the elastic group", error_last());
    ending.opened = ending.looked = clock_ns();
    ending.until = due > ending.opened + patience_of(generation) ? due : ending.opened + patience_of(generation);
    for (;;) {
        lock_take(&engine->lock);
        engine_poll(engine);
        tutti_result_t result = ending_look(&ending);
        lock_release(&engine->lock);
        if (result != TUTTI_IN_PROGRESS)
            return result;
        engine_sleep(engine, NULL, LOOK_MS);
    }
}

static void close_comm(struct tutti_comm *comm)
{
    if (!comm)
        return;
    if (atomic_load(&comm->state) == COMM_READY && !atomic_load(&comm->team->failed))
        comm_end_calls(comm);
    else
        comm_abort(comm, true);
    comm_free(comm);
}

void generation_close(struct generation *generation)
{
    if (!generation)
        return;
    lock_take(&generation->comm->engine->lock);
    if (generation->consent.decided)
        consent_tell(&generation->consent);
    if (generation->consent.decided || generation->replaced)
        memos_over(generation->comm->engine, generation->comm->team->id);
    generation->comm->meeting.consents = NULL;
    lock_release(&generation->comm->engine->lock);
    if (generation->data != generation->comm)
        close_comm(generation->data);
    close_comm(generation->comm);
    free(generation->member);
    free(generation->unit);
    free(generation->cut);
    free(generation->left);
    free(generation);
}

void generation_memory(const struct generation *generation, size_t *device, size_t *host)
{
    struct tutti_comm *both[] = {generation->comm, generation->data};
    *host += sizeof *generation;
    *host += (size_t)generation->members *
             (sizeof *generation->member + sizeof *generation->unit + sizeof *generation->cut + 1);
    for (int i = 0; i < 2 && both[i] && (!i || both[1] != both[0]); i++) {
        size_t on_device = 0, on_host = 0;
        comm_memory(both[i], &on_device, &on_host);
        *device += on_device;
        *host += on_host;
    }
}
