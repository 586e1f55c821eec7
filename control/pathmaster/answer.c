/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of owners: what they may ask, and what they get. */
#include "pathmaster/ask.h"
#include "pathmaster/probed.h"
#include "pathmaster/state.h"

#include "base/clock.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

#define COME_LEAST   200  /* ms after which an owner comes again: a wave takes that long, too */
#define COME_MOST    5000 /* the same, where there are many */
#define OWNERS_A_MS  4    /* that come in turn */
#define LEASE_PARTS  3    /* times that an owner comes in a lease, at least */
#define SAY_OK       200
#define SAY_NONSENSE 400
#define SAY_FORBID   403
#define SAY_BUSY     429
#define SAY_FAILS    503

struct answering {
    struct pathmaster *master;
    const Tutti__PathAsk *ask;
    int32_t tenant, owner;
    Tutti__PathAnswer answer;
    Tutti__PathGiven *given, **givens; /* room for all lanes of the question, and of the owner */
    bool known;                        /* before this question */
    struct probed_tasks tasks;
    bool led; /* this master did, when the question came */
};

/* ---- lanes ---- */

static enum allot_answer ask_lane(struct answering *a, const Tutti__PathLane *lane, tutti_result_t *result)
{
    struct pathmaster *master = a->master;
    const struct tenant *tenant = &master->tenants.tenant[a->tenant];
    struct allot_ask ask = {.owner = a->owner,
                            .number = lane->number,
                            .from = names_nic(&master->names, lane->from.data),
                            .to = names_nic(&master->names, lane->to.data),
                            .parts = lane->parts,
                            .idle = lane->idle,
                            .again = lane->again,
                            .port = (uint16_t)lane->port};
    struct allot_event event;
    if (ask.from < 0 || ask.to < 0 || ask.from == ask.to)
        return ALLOT_UNKNOWN;
    enum allot_answer answer = allot_ask(&master->allot, &ask, &event);
    if (answer == ALLOT_NEW && event.kind == ALLOT_GIVE && tenant->most &&
        master->of_tenant[a->tenant].lanes >= tenant->most)
        return ALLOT_TOO_MANY;
    if (answer != ALLOT_NEW)
        return answer;
    *result = pathmaster_event(master, &event);
    master->given++;
    return answer;
}

static void give(Tutti__PathGiven *out, uint64_t number, uint32_t port, enum allot_answer why)
{
    *out = (Tutti__PathGiven)TUTTI__PATH_GIVEN__INIT;
    out->number = number;
    out->port = port;
    out->why = why;
}

static tutti_result_t ask_lanes(struct answering *a)
{
    tutti_result_t result = TUTTI_SUCCESS;
    a->answer.given = a->givens;
    for (size_t i = 0; !result && i < a->ask->n_lanes; i++) {
        const Tutti__PathLane *lane = a->ask->lanes[i];
        enum allot_answer why = ask_lane(a, lane, &result);
        int32_t at = allot_find_lane(&a->master->allot, a->owner, lane->number);
        bool has = at >= 0 && (why == ALLOT_NEW || why == ALLOT_KNOWN);
        give(a->givens[i], lane->number, has ? a->master->allot.lane[at].port : 0, why);
        a->answer.n_given++;
    }
    return result;
}

static tutti_result_t end_lanes(struct answering *a)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t i = 0; !result && i < a->ask->n_ended; i++) {
        struct allot_event event = {.kind = ALLOT_END, .owner = a->owner, .number = a->ask->ended[i]};
        if (allot_find_lane(&a->master->allot, a->owner, event.number) < 0)
            continue;
        result = pathmaster_event(a->master, &event);
    }
    return result;
}

/* Lanes of waves that the owner has not heard of, and whose time has come. */
static void tell_moved(struct answering *a)
{
    const struct allot *allot = &a->master->allot;
    a->answer.moved = a->givens + a->ask->n_lanes;
    a->answer.wave = a->master->told;
    if (a->ask->wave >= a->master->told && a->known)
        return;
    for (int32_t i = allot->owner[a->owner].first; i >= 0; i = allot->lane[i].next_own) {
        const struct allot_lane *lane = &allot->lane[i];
        if (lane->wave > a->ask->wave && lane->wave <= a->master->told)
            give(a->answer.moved[a->answer.n_moved++], lane->number, lane->port, ALLOT_NEW);
    }
}

/* ---- owners ---- */

/* No tenant takes all owners' places. */
static int32_t most_owners(const struct pathmaster *master)
{
    return ALLOT_OWNERS / master->tenants.count;
}

static tutti_result_t make_owner(struct answering *a)
{
    struct allot_event event = {.kind = ALLOT_OWNER, .tenant = a->tenant, .owner = allot_next_owner(&a->master->allot)};
    if (a->known)
        return TUTTI_SUCCESS;
    memcpy(event.secret, a->ask->owner.data, ALLOT_SECRET);
    a->owner = event.owner;
    return pathmaster_event(a->master, &event);
}

static uint32_t come_again(const struct pathmaster *master)
{
    uint64_t ms = (uint64_t)master->allot.owners / OWNERS_A_MS, lease = master->options->lease / NS_PER_MS;
    ms = ms < COME_LEAST ? COME_LEAST : ms > COME_MOST ? COME_MOST : ms;
    ms = ms > lease / LEASE_PARTS ? lease / LEASE_PARTS : ms;
    return ms ? (uint32_t)ms : 1;
}

/* Room for all that could be answered. */
static bool make_room(struct answering *a, size_t count)
{
    a->given = calloc(count + 1, sizeof *a->given);
    a->givens = calloc(count + 1, sizeof *a->givens);
    for (size_t i = 0; a->given && a->givens && i < count; i++)
        a->givens[i] = &a->given[i];
    return a->given && a->givens;
}

static tutti_result_t answer_owner(struct answering *a)
{
    struct pathmaster *master = a->master;
    tutti_result_t result = make_owner(a);
    if (result)
        return result;
    size_t own = (size_t)master->allot.owner[a->owner].count + a->ask->n_lanes;
    master->allot.owner[a->owner].until = clock_ns() + master->options->lease;
    if (!make_room(a, a->ask->n_lanes + own))
        return error_note(TUTTI_SYSTEM_ERROR, "no memory for an answer");
    result = end_lanes(a);
    if (!result)
        result = ask_lanes(a);
    if (!result)
        tell_moved(a);
    if (!result)
        probed_take(master, a->owner, a->ask);
    if (!result && !probed_tell(master, a->owner, a->ask, &a->answer, &a->tasks))
        result = error_note(TUTTI_SYSTEM_ERROR, "no memory for the paths to probe");
    a->answer.unknown = !a->known;
    return result;
}

/* ---- links ---- */

static tutti_result_t set_links(struct answering *a)
{
    struct pathmaster *master = a->master;
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t i = 0; !result && i < a->ask->n_links; i++) {
        const Tutti__PathLink *link = a->ask->links[i];
        const struct allot_event event = {
            .kind = ALLOT_LINK, .uplink = names_uplink(&master->names, link->uplink), .percent = link->percent};
        result = pathmaster_event(master, &event);
        if (!result)
            printf("%s has %u%% of its rate\n", link->uplink, link->percent);
    }
    if (a->ask->n_links)
        pathmaster_hurry(master);
    if (a->ask->look) {
        master->catalogue.rest = 0;
        catalogue_sweep(&master->catalogue, clock_ns());
    }
    fflush(stdout);
    return result;
}

/* ---- the whole ---- */

/* Before anything is changed. */
static unsigned may_ask(struct answering *a)
{
    struct pathmaster *master = a->master;
    const struct tenant *tenant = &master->tenants.tenant[a->tenant];
    if ((a->ask->n_links || a->ask->look) && !tenant->operates) {
        error_note(TUTTI_INVALID_USAGE, "%s may not say how links are: an operator may", tenant->name);
        return SAY_FORBID;
    }
    if ((a->ask->n_nics || a->ask->n_probed) && !tenant->probes) {
        error_note(TUTTI_INVALID_USAGE, "%s may not say what probes find: its line of the tenants lacks \"prober\"",
                   tenant->name);
        return SAY_FORBID;
    }
    for (size_t i = 0; i < a->ask->n_links; i++)
        if (names_uplink(&master->names, a->ask->links[i]->uplink) < 0) {
            error_note(TUTTI_INVALID_USAGE, "%s has no uplink %.40s: they are called rack1.u3", master->options->fabric,
                       a->ask->links[i]->uplink);
            return SAY_NONSENSE;
        }
    if (!a->ask->owner.len)
        return SAY_OK;
    a->owner = allot_find_owner(&master->allot, a->tenant, a->ask->owner.data);
    a->known = a->owner >= 0;
    if (a->known || master->of_tenant[a->tenant].owners < most_owners(master))
        return SAY_OK;
    error_note(TUTTI_INVALID_USAGE, "%s has %d owners of lanes already", master->tenants.tenant[a->tenant].name,
               most_owners(master));
    return SAY_BUSY;
}

/* One question is one transaction: what was answered is in the file. */
static unsigned answer_ask(struct answering *a)
{
    struct pathmaster *master = a->master;
    if (!master->leads) {
        error_note(TUTTI_SYSTEM_ERROR, "this master does not lead: ask the others");
        return SAY_FAILS;
    }
    unsigned status = may_ask(a);
    if (status != SAY_OK)
        return status;
    tutti_result_t result = store_begin(master->store);
    if (!result)
        result = set_links(a);
    if (!result && a->ask->owner.len)
        result = answer_owner(a);
    if (!result)
        result = store_commit(master->store);
    if (!result)
        return SAY_OK;
    struct error_saved saved;
    error_save(&saved);
    store_undo(master->store);
    pathmaster_again(master);
    error_restore(&saved);
    return SAY_FAILS;
}

static void reply(struct answering *a, struct serve_request *request, unsigned status)
{
    size_t size = 0;
    uint8_t *bytes = NULL;
    a->answer.lease_ms = (uint32_t)(a->master->options->lease / NS_PER_MS);
    a->answer.come_ms = come_again(a->master);
    if (status == SAY_OK)
        bytes = path_pack(&a->answer.base, &size);
    if (bytes)
        serve_answer(request, SAY_OK, bytes, size, 0);
    else
        serve_say(request, status == SAY_OK ? SAY_FAILS : status, status == SAY_OK ? "no memory" : error_last(), 0);
    free(bytes);
}

void pathmaster_post(void *context, struct serve_request *request, const struct serve_post *post)
{
    struct pathmaster *master = context;
    Tutti__PathAsk *ask = NULL;
    struct answering a = {.master = master, .tenant = (int32_t)post->token, .answer = TUTTI__PATH_ANSWER__INIT};
    unsigned status = SAY_NONSENSE;
    pthread_mutex_lock(&master->lock);
    master->asked++;
    a.led = master->leads;
    if (path_ask_read(post->bytes, post->size, &ask) == TUTTI_SUCCESS) {
        a.ask = ask;
        status = answer_ask(&a);
    }
    master->refused += status != SAY_OK;
    reply(&a, request, status);
    if (status == SAY_FAILS && a.led)
        pathmaster_complain(master);
    pthread_mutex_unlock(&master->lock);
    if (status >= SAY_NONSENSE && status < SAY_FAILS)
        pathmaster_refusal(master, post->from, error_last());
    free(a.given);
    free(a.givens);
    probed_free(&a.tasks);
    path_ask_free(ask);
}

void pathmaster_refusal(void *context, const char *from, const char *sentence)
{
    struct pathmaster *master = context;
    sources_refused(master->sources, from, sentence, clock_ns());
}
