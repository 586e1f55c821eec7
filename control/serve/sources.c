/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/sources.h"

#include "base/clock.h"
#include "base/slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORGET_NS (600 * NS_PER_S) /* a host that is not reported for this time makes room for another */
#define AGAIN_NS  (60 * NS_PER_S)
#define CULPRITS  64 /* addresses whose refusals are remembered */
#define NAME      64

/* A host as one address reports it. */
struct sources_told {
    uint64_t key; /* of both names: it tells most hosts apart */
    char from[NAME], host[NAME];
    uint64_t heard, allowance; /* allowance: ns of silence that no report has used up */
};

struct sources_culprit {
    char from[NAME];
    uint64_t said, refusals;
};

/* Equal keys count as one address: then two share the number of hosts that they may name. */
struct sources_address {
    uint64_t key;
    size_t hosts;
};

struct sources {
    const char *program;
    struct sources_told *told; /* and where they are, by key */
    size_t count;
    struct slots places;
    struct sources_address *address; /* the same of addresses */
    size_t addresses;
    struct slots address_places;
    struct sources_culprit culprits[CULPRITS];
    uint64_t said;
    char complaint[SERVE_SENTENCE], heard[SERVE_SENTENCE]; /* the last sentence; the complaint of an agent in it */
};

struct sources *sources_open(const char *program)
{
    struct sources *sources = calloc(1, sizeof *sources);
    if (sources)
        sources->program = program;
    return sources;
}

void sources_close(struct sources *sources)
{
    if (sources) {
        free(sources->told);
        free(sources->address);
        slots_free(&sources->places);
        slots_free(&sources->address_places);
    }
    free(sources);
}

const char *sources_complaint(const struct sources *sources)
{
    return sources->complaint;
}

/* ---- Hosts ---- */

static uint64_t key_of(const char *from, const char *host)
{
    uint64_t key = 0xcbf29ce484222325ull;
    for (; *from; from++)
        key = (key ^ (unsigned char)*from) * 0x100000001b3ull;
    for (key *= 0x100000001b3ull; *host; host++)
        key = (key ^ (unsigned char)*host) * 0x100000001b3ull;
    return key;
}

static struct sources_told *find(struct sources *sources, uint64_t key, const char *from, const char *host)
{
    size_t turn = 0;
    for (int64_t i; (i = slots_next(&sources->places, key, &turn)) >= 0;)
        if (strcmp(sources->told[i].from, from) == 0 && strcmp(sources->told[i].host, host) == 0)
            return &sources->told[i];
    return NULL;
}

static struct sources_address *address_of(const struct sources *sources, const char *from)
{
    size_t turn = 0;
    int64_t at = slots_next(&sources->address_places, key_of(from, ""), &turn);
    return at < 0 ? NULL : &sources->address[at];
}

static size_t named_by(const struct sources *sources, const char *from)
{
    const struct sources_address *address = address_of(sources, from);
    return address ? address->hosts : 0;
}

/* One more host of this address, whose entry is made if it has none. False: no memory. */
static bool name_one(struct sources *sources, const char *from)
{
    struct sources_address *address = address_of(sources, from), *more;
    if (!address) {
        more = realloc(sources->address, (sources->addresses + 1) * sizeof *more);
        if (more)
            sources->address = more;
        if (!more || !slots_put(&sources->address_places, key_of(from, ""), (uint32_t)sources->addresses))
            return false;
        address = &more[sources->addresses++];
        *address = (struct sources_address){.key = key_of(from, "")};
    }
    address->hosts++;
    return true;
}

/* What is put back needs no memory: as much was in before. */
static void forget(struct sources *sources, uint64_t now)
{
    size_t kept = 0, count = sources->count;
    slots_clear(&sources->places);
    slots_clear(&sources->address_places);
    sources->addresses = 0;
    for (size_t i = 0; i < count; i++)
        if (now < sources->told[i].heard + FORGET_NS) {
            sources->told[kept] = sources->told[i];
            slots_put(&sources->places, sources->told[kept].key, (uint32_t)kept);
            name_one(sources, sources->told[kept++].from);
        }
    sources->count = kept;
}

/* NULL: no memory. */
static struct sources_told *add(struct sources *sources, uint64_t key, const char *from, const char *host)
{
    size_t count = sources->count;
    struct sources_told *more = realloc(sources->told, (count + 1) * sizeof *more);
    if (more)
        sources->told = more;
    if (!more || !name_one(sources, from) || !slots_put(&sources->places, key, (uint32_t)count))
        return NULL;
    struct sources_told *told = &more[sources->count++];
    *told = (struct sources_told){.key = key, .allowance = SOURCES_BURST * NS_PER_S / SOURCES_RATE};
    snprintf(told->from, sizeof told->from, "%s", from);
    snprintf(told->host, sizeof told->host, "%s", host);
    return told;
}

static unsigned spend(struct sources_told *told, uint64_t now, char sentence[SERVE_SENTENCE])
{
    uint64_t cost = NS_PER_S / SOURCES_RATE, most = SOURCES_BURST * cost;
    uint64_t silence = told->heard && now > told->heard ? now - told->heard : 0;
    told->allowance = silence > most - told->allowance ? most : told->allowance + silence;
    told->heard = now;
    if (told->allowance < cost) {
        snprintf(sentence, SERVE_SENTENCE, "more than %u reports of host %s in a second", SOURCES_RATE, told->host);
        return 429;
    }
    told->allowance -= cost;
    return 0;
}

unsigned sources_admit(struct sources *sources, const char *from, const char *host, uint64_t now,
                       char sentence[SERVE_SENTENCE])
{
    uint64_t key = key_of(from, host);
    struct sources_told *told = find(sources, key, from, host);
    if (told)
        return spend(told, now, sentence);
    if (sources->count >= SOURCES_HOSTS || named_by(sources, from) >= SOURCES_FROM_ONE)
        forget(sources, now);
    if (named_by(sources, from) >= SOURCES_FROM_ONE)
        snprintf(sentence, SERVE_SENTENCE, "%s has named %u hosts, and host %s is one too many", from, SOURCES_FROM_ONE,
                 host);
    else if (sources->count >= SOURCES_HOSTS || !(told = add(sources, key, from, host)))
        snprintf(sentence, SERVE_SENTENCE, "no room for host %s: %zu have been named", host, sources->count);
    return told ? spend(told, now, sentence) : 403;
}

/* ---- Refusals ---- */

/* The entry of this address; if there is none, it replaces the oldest one. */
static struct sources_culprit *culprit_of(struct sources *sources, const char *from)
{
    struct sources_culprit *oldest = sources->culprits;
    for (size_t i = 0; i < CULPRITS; i++) {
        struct sources_culprit *culprit = &sources->culprits[i];
        if (strcmp(culprit->from, from) == 0)
            return culprit;
        oldest = culprit->said < oldest->said ? culprit : oldest;
    }
    *oldest = (struct sources_culprit){0};
    snprintf(oldest->from, sizeof oldest->from, "%s", from);
    return oldest;
}

static bool may_be_said(struct sources *sources, struct sources_culprit *culprit, uint64_t now)
{
    if ((culprit->said && now < culprit->said + AGAIN_NS) || (sources->said && now < sources->said + NS_PER_S))
        return false;
    culprit->said = sources->said = now;
    return true;
}

static void complain(const struct sources *sources)
{
    fprintf(stderr, "%s: %s\n", sources->program, sources->complaint);
}

void sources_refused(struct sources *sources, const char *from, const char *sentence, uint64_t now)
{
    struct sources_culprit *culprit = culprit_of(sources, from);
    culprit->refusals++;
    if (!may_be_said(sources, culprit, now))
        return;
    snprintf(sources->complaint, sizeof sources->complaint, "%s was refused, %llu times so far: %s", from,
             (unsigned long long)culprit->refusals, sentence);
    complain(sources);
}

void sources_heard(struct sources *sources, const char *from, const char *complaint, uint64_t now)
{
    if (!*complaint || strcmp(complaint, sources->heard) == 0 || !may_be_said(sources, culprit_of(sources, from), now))
        return;
    snprintf(sources->heard, sizeof sources->heard, "%s", complaint);
    snprintf(sources->complaint, sizeof sources->complaint, "the agent at %s says: %s", from, complaint);
    complain(sources);
}
