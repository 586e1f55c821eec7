/* SPDX-License-Identifier: Apache-2.0 */
/* Introductions come from members, who know the meeting's secret, but may be of another version or another program. */
#include "comm/introduction.h"

#include "base/error.h"
#include "base/random.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The parameters that must agree, in the table's order. */
static void settings_shared(enum param_id *out)
{
    for (int id = 0; id < PARAM_COUNT; id++)
        if (param_row((enum param_id)id)->same_on_all_ranks)
            *out++ = (enum param_id)id;
}

/* Not the text, which may spell one value in several ways. */
static uint64_t settings_value(enum param_id id)
{
    const char *text = param_string(id);
    return param_row(id)->kind == PARAM_KIND_STRING ? hash_bytes(0, text, strlen(text)) : (uint64_t)param_int(id);
}

void settings_here(struct settings *out)
{
    enum param_id ids[PARAM_SAME_COUNT];
    settings_shared(ids);
    for (int i = 0; i < PARAM_SAME_COUNT; i++)
        out->value[i] = settings_value(ids[i]);
}

uint64_t settings_hash(const struct settings *settings)
{
    return hash_bytes(0, settings->value, sizeof settings->value);
}

void introduction_begin(struct introduction *out, bool on_device, uint64_t choices)
{
    struct settings settings;
    settings_here(&settings);
    *out = (struct introduction){
        .version = TUTTI_VERSION, .on_device = on_device, .choices = choices, .settings = settings_hash(&settings)};
    memset(out->fact.nic, WIRE_NO_NIC, sizeof out->fact.nic);
}

/* ---- As it is sent ---- */

void introduction_pack(const struct introduction *mine, struct introduction_first *first,
                       uint8_t more[INTRODUCTION_MOST])
{
    uint8_t packed[INTRODUCTION_MOST];
    size_t bytes = sparse_pack(mine, sizeof *mine, packed),
           here = bytes < INTRODUCTION_FIRST ? bytes : INTRODUCTION_FIRST;
    *first = (struct introduction_first){.bytes = (uint16_t)bytes};
    memset(more, 0, INTRODUCTION_MOST);
    memcpy(first->packed, packed, here);
    memcpy(more, packed + here, bytes - here);
}

size_t introductions_more(const struct introduction_first *first, int nranks)
{
    size_t most = 0;
    for (int rank = 0; rank < nranks; rank++)
        if (first[rank].bytes > most && first[rank].bytes <= INTRODUCTION_MOST)
            most = first[rank].bytes;
    return most > INTRODUCTION_FIRST ? most - INTRODUCTION_FIRST : 0;
}

const struct introduction *introduction_of(const struct introductions *all, int rank, struct introduction *room)
{
    uint8_t whole[INTRODUCTION_MOST];
    const struct introduction_first *first = &all->first[rank];
    const uint8_t *packed = first->packed;
    if (first->bytes > INTRODUCTION_MOST)
        return NULL;
    if (first->bytes > INTRODUCTION_FIRST) {
        memcpy(whole, packed, INTRODUCTION_FIRST);
        memcpy(whole + INTRODUCTION_FIRST, all->more + (size_t)rank * all->each, first->bytes - INTRODUCTION_FIRST);
        packed = whole;
    }
    return first->bytes && sparse_unpack(packed, first->bytes, room, sizeof *room) == first->bytes ? room : NULL;
}

/* ---- What makes no sense ---- */

static bool introduction_address(const struct wire_address *address)
{
    return address->family == 0 || address->family == 4 || address->family == 6;
}

static bool introduction_addresses(const struct wire_process *process)
{
    bool right = true;
    for (int i = 0; i < WIRE_ADDRESSES; i++)
        right = right && introduction_address(&process->tcp[i]);
    for (int i = 0; i < WIRE_DEVICES; i++)
        right = right && introduction_address(&process->verbs[i]);
    return right;
}

/* Text to its end, then zeros: it is printed, and compared as bytes. */
static bool introduction_bus(const char bus_id[16])
{
    size_t length = strnlen(bus_id, 16), i = 0;
    for (; i < length && (isxdigit((unsigned char)bus_id[i]) || strchr(":.", bus_id[i])); i++)
        ;
    if (i < length || length == 16)
        return false;
    for (; i < 16 && !bus_id[i]; i++)
        ;
    return i == 16;
}

/* Each port once, then none. */
static bool introduction_nics(const uint8_t nic[WIRE_DEVICES])
{
    unsigned seen = 0;
    int i = 0;
    for (; i < WIRE_DEVICES && nic[i] < WIRE_DEVICES && !(seen >> nic[i] & 1); i++)
        seen |= 1u << nic[i];
    for (; i < WIRE_DEVICES && nic[i] == WIRE_NO_NIC; i++)
        ;
    return i == WIRE_DEVICES;
}

/* NULL: all that is looked at later is within its bounds. */
static const char *introduction_odd(const struct introduction *said)
{
    if (said->on_device > 1)
        return "a kind of memory";
    if (said->process.shares > WIRE_SHARES_UNSEALED || said->process.reserved)
        return "a way to share memory";
    if (!introduction_addresses(&said->process))
        return "an address";
    if (!introduction_bus(said->fact.bus_id))
        return "a GPU";
    if (!introduction_nics(said->fact.nic))
        return "an order of adapters";
    return NULL;
}

/* ---- Whether ranks fit ---- */

static tutti_result_t introductions_versions(const struct introductions *all, const struct introduction *mine, int me)
{
    struct introduction said;
    for (int rank = 0; rank < all->nranks; rank++)
        if (!introduction_of(all, rank, &said))
            return error_set(TUTTI_REMOTE_ERROR,
                             "rank %d sends no introduction that tutti %u understands; use one build on all ranks",
                             rank, mine->version);
        else if (said.version != mine->version)
            return error_set(TUTTI_INVALID_USAGE, "rank %d has tutti %u, rank %d has %u; use one version", rank,
                             said.version, me, mine->version);
    for (int rank = 0; rank < all->nranks; rank++) {
        const char *odd = introduction_odd(introduction_of(all, rank, &said));
        if (odd)
            return error_set(
                TUTTI_REMOTE_ERROR,
                "rank %d introduces itself with %s that tutti %u does not know; use one build on all ranks", rank, odd,
                mine->version);
    }
    return TUTTI_SUCCESS;
}

/* Nobody knows who has two values: so all compare with rank 0 here, and come to one answer. */
static bool introductions_settings(const struct introductions *all)
{
    struct introduction first, said;
    bool same = introduction_of(all, 0, &first) != NULL;
    for (int rank = 1; rank < all->nranks && same; rank++)
        same = introduction_of(all, rank, &said)->settings == first.settings;
    return same;
}

/* One look at each rank tells whether anything is to be said. */
static bool introductions_fit(const struct introductions *all, const struct introduction *mine)
{
    struct introduction said;
    for (int rank = 0; rank < all->nranks; rank++)
        if (!introduction_of(all, rank, &said) || said.version != mine->version || introduction_odd(&said) ||
            said.on_device != mine->on_device || said.settings != mine->settings || said.choices != mine->choices)
            return false;
    return true;
}

tutti_result_t introductions_compare(const struct introductions *all, int me)
{
    struct introduction mine, said;
    if (!introduction_of(all, me, &mine))
        return error_set(TUTTI_REMOTE_ERROR, "the introduction of this rank, %d, came back changed", me);
    if (introductions_fit(all, &mine))
        return TUTTI_SUCCESS;
    tutti_result_t result = introductions_versions(all, &mine, me);
    if (result != TUTTI_SUCCESS)
        return result;
    for (int rank = 0; rank < all->nranks; rank++)
        if (introduction_of(all, rank, &said)->on_device != mine.on_device)
            return error_set(TUTTI_INVALID_USAGE, "rank %d works on %s, rank %d on %s; use one kind of memory", rank,
                             said.on_device ? "a GPU" : "host memory", me, mine.on_device ? "a GPU" : "host memory");
    if (!introductions_settings(all))
        return TUTTI_IN_PROGRESS;
    for (int rank = 0; rank < all->nranks; rank++)
        if (introduction_of(all, rank, &said)->choices != mine.choices)
            return error_set(TUTTI_INVALID_USAGE,
                             "rank %d has another table of algorithms than rank %d; give all ranks the same file in "
                             "TUTTI_TUNE_FILE, or none",
                             rank, me);
    return TUTTI_SUCCESS;
}

static tutti_result_t settings_differ(enum param_id id, int me, int rank, uint64_t theirs)
{
    char there[40] = "another one", from[400] = "";
    enum param_kind kind = param_row(id)->kind;
    const char *source = param_source(id);
    if (kind != PARAM_KIND_STRING && kind != PARAM_KIND_CHOICE)
        snprintf(there, sizeof there, "%lld", (long long)theirs);
    if (strcmp(source, "default") != 0 && strcmp(source, param_row(id)->name) != 0)
        snprintf(from, sizeof from, " (from %.380s)", source);
    return error_set(TUTTI_INVALID_USAGE,
                     "%s differs: rank %d has \"%s\"%s, rank %d %s; it must be the same on all ranks",
                     param_row(id)->name, me, param_string(id), from, rank, there);
}

/* Two others that differ concern a rank as well: it has what one of them has, or neither. */
tutti_result_t settings_refuse(const struct introductions *said, const struct settings *all, int me)
{
    enum param_id ids[PARAM_SAME_COUNT];
    struct introduction mine, theirs;
    settings_shared(ids);
    for (int rank = 0; rank < said->nranks; rank++)
        for (int i = 0; i < PARAM_SAME_COUNT; i++)
            if (all[rank].value[i] != all[me].value[i])
                return settings_differ(ids[i], me, rank, all[rank].value[i]);
    for (int rank = 0; rank < said->nranks; rank++)
        if (introduction_of(said, me, &mine) && introduction_of(said, rank, &theirs) &&
            theirs.settings != mine.settings)
            return error_set(
                TUTTI_REMOTE_ERROR,
                "rank %d says that its settings differ from those of rank %d, and then sends equal ones; use "
                "one build on all ranks",
                rank, me);
    return error_set(TUTTI_REMOTE_ERROR,
                     "ranks say that their settings differ, and then send equal ones; use one build on all ranks");
}
