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

static tutti_result_t introductions_versions(const struct introduction *all, int nranks, int me)
{
    for (int rank = 0; rank < nranks; rank++)
        if (all[rank].version != all[me].version)
            return error_set(TUTTI_INVALID_USAGE, "rank %d has tutti %u, rank %d has %u; use one version", rank,
                             all[rank].version, me, all[me].version);
    for (int rank = 0; rank < nranks; rank++) {
        const char *odd = introduction_odd(&all[rank]);
        if (odd)
            return error_set(
                TUTTI_REMOTE_ERROR,
                "rank %d introduces itself with %s that tutti %u does not know; use one build on all ranks", rank, odd,
                all[me].version);
    }
    return TUTTI_SUCCESS;
}

/* Nobody knows who has two values: so all compare with rank 0 here, and come to one answer. */
static bool introductions_settings(const struct introduction *all, int nranks)
{
    bool same = true;
    for (int rank = 1; rank < nranks; rank++)
        same = same && all[rank].settings == all[0].settings;
    return same;
}

tutti_result_t introductions_compare(const struct introduction *all, int nranks, int me)
{
    tutti_result_t result = introductions_versions(all, nranks, me);
    if (result != TUTTI_SUCCESS)
        return result;
    for (int rank = 0; rank < nranks; rank++)
        if (all[rank].on_device != all[me].on_device)
            return error_set(TUTTI_INVALID_USAGE, "rank %d works on %s, rank %d on %s; use one kind of memory", rank,
                             all[rank].on_device ? "a GPU" : "host memory", me,
                             all[me].on_device ? "a GPU" : "host memory");
    if (!introductions_settings(all, nranks))
        return TUTTI_IN_PROGRESS;
    for (int rank = 0; rank < nranks; rank++)
        if (all[rank].choices != all[me].choices)
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
tutti_result_t settings_refuse(const struct introduction *said, const struct settings *all, int nranks, int me)
{
    enum param_id ids[PARAM_SAME_COUNT];
    settings_shared(ids);
    for (int rank = 0; rank < nranks; rank++)
        for (int i = 0; i < PARAM_SAME_COUNT; i++)
            if (all[rank].value[i] != all[me].value[i])
                return settings_differ(ids[i], me, rank, all[rank].value[i]);
    for (int rank = 0; rank < nranks; rank++)
        if (said[rank].settings != said[me].settings)
            return error_set(
                TUTTI_REMOTE_ERROR,
                "rank %d says that its settings differ from those of rank %d, and then sends equal ones; use "
                "one build on all ranks",
                rank, me);
    return error_set(TUTTI_REMOTE_ERROR,
                     "ranks say that their settings differ, and then send equal ones; use one build on all ranks");
}
