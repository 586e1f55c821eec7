/* SPDX-License-Identifier: Apache-2.0 */
#include "pathmaster/stored.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

struct stored_event {
    Tutti__StoredEvent message;
    char uplink[PATHS_NAME];
    uint8_t secret[ALLOT_SECRET];
};

tutti_result_t stored_open(struct stored *stored, const struct fabric_names *names, const struct tenants *tenants)
{
    *stored = (struct stored){.names = names, .tenants = tenants};
    stored->number_of = calloc(ALLOT_OWNERS, sizeof *stored->number_of);
    return stored->number_of ? TUTTI_SUCCESS : error_note(TUTTI_SYSTEM_ERROR, "no memory for owners of lanes");
}

void stored_free(struct stored *stored)
{
    free(stored->event);
    free(stored->number_of);
    free(stored->owner);
    *stored = (struct stored){0};
}

void stored_clear(struct stored *stored)
{
    stored->count = 0;
}

/* ---- writing ---- */

static struct stored_event *add(struct stored *stored)
{
    if (stored->count == stored->room) {
        size_t room = stored->room ? stored->room * 2 : 256;
        struct stored_event *more = realloc(stored->event, room * sizeof *more);
        if (!more) {
            error_note(TUTTI_SYSTEM_ERROR, "no memory for %zu events", room);
            return NULL;
        }
        stored->event = more;
        stored->room = room;
    }
    struct stored_event *event = &stored->event[stored->count++];
    *event = (struct stored_event){.message = TUTTI__STORED_EVENT__INIT};
    return event;
}

tutti_result_t stored_note(struct stored *stored, const struct allot_event *event)
{
    struct stored_event *out = add(stored);
    if (!out)
        return TUTTI_SYSTEM_ERROR;
    if (event->kind == ALLOT_OWNER)
        stored->number_of[event->owner] = ++stored->last;
    out->message.kind = event->kind;
    out->message.owner = event->kind == ALLOT_LINK ? 0 : stored->number_of[event->owner];
    out->message.number = event->number;
    out->message.weight = event->weight;
    out->message.side = event->side;
    out->message.port = event->port;
    out->message.wave = event->wave;
    out->message.percent = event->percent;
    out->message.probed = event->probed;
    if (event->kind == ALLOT_OWNER) {
        out->message.tenant = stored->tenants->tenant[event->tenant].name;
        memcpy(out->secret, event->secret, ALLOT_SECRET);
    }
    if (event->kind == ALLOT_GIVE) {
        out->message.from = stored->names->fabric->nic[event->from].address;
        out->message.to = stored->names->fabric->nic[event->to].address;
    }
    if (event->kind == ALLOT_GIVE || event->kind == ALLOT_MOVE || event->kind == ALLOT_LINK)
        paths_uplink_name(stored->names->fabric, event->uplink, out->uplink);
    return TUTTI_SUCCESS;
}

static tutti_result_t note_link(struct stored *stored, int32_t uplink, uint32_t percent, bool probed)
{
    const struct allot_event event = {.kind = ALLOT_LINK, .uplink = uplink, .percent = percent, .probed = probed};
    return percent < 100 ? stored_note(stored, &event) : TUTTI_SUCCESS;
}

/* Owners keep their numbers. */
static tutti_result_t note_owner(struct stored *stored, const struct allot *allot, int32_t place)
{
    const struct allot_owner *owner = &allot->owner[place];
    struct allot_event event = {.kind = ALLOT_OWNER, .owner = place, .tenant = owner->tenant};
    uint64_t number = stored->number_of[place], last = stored->last;
    memcpy(event.secret, owner->secret, ALLOT_SECRET);
    tutti_result_t result = stored_note(stored, &event);
    stored->number_of[place] = number;
    stored->last = last;
    if (!result)
        stored->event[stored->count - 1].message.owner = number;
    for (int32_t i = owner->first; !result && i >= 0; i = allot->lane[i].next_own) {
        const struct allot_lane *lane = &allot->lane[i];
        result = stored_note(stored, &(struct allot_event){.kind = ALLOT_GIVE,
                                                           .owner = place,
                                                           .number = lane->number,
                                                           .from = lane->from,
                                                           .to = lane->to,
                                                           .weight = lane->weight,
                                                           .uplink = lane->way.uplink,
                                                           .side = lane->way.side,
                                                           .port = lane->port,
                                                           .wave = lane->wave});
    }
    return result;
}

static int by_number(const void *left, const void *right)
{
    const struct stored_owner *a = left, *b = right;
    return (a->number > b->number) - (a->number < b->number);
}

tutti_result_t stored_all(struct stored *stored, const struct allot *allot)
{
    struct stored_owner *order = calloc((size_t)allot->owner_places + 1, sizeof *order);
    size_t owners = 0;
    tutti_result_t result = order ? TUTTI_SUCCESS : error_note(TUTTI_SYSTEM_ERROR, "no memory for owners of lanes");
    for (int32_t i = 0; order && i < allot->owner_places; i++)
        if (allot->owner[i].tenant >= 0)
            order[owners++] = (struct stored_owner){stored->number_of[i], i};
    if (order)
        qsort(order, owners, sizeof *order, by_number);
    for (int32_t u = 0; !result && u < stored->names->fabric->uplinks; u++) {
        result = note_link(stored, u, allot->told[u], false);
        if (!result)
            result = note_link(stored, u, allot->found[u], true);
    }
    for (size_t i = 0; !result && i < owners; i++)
        result = note_owner(stored, allot, order[i].place);
    free(order);
    return result;
}

uint8_t *stored_pack(const struct stored *stored, size_t from, size_t count, size_t *size)
{
    Tutti__StoredEvents all = TUTTI__STORED_EVENTS__INIT;
    Tutti__StoredEvent **list = calloc(count + 1, sizeof *list);
    uint8_t *bytes = NULL;
    for (size_t i = 0; list && i < count; i++) {
        struct stored_event *event = &stored->event[from + i];
        if (*event->uplink)
            event->message.uplink = event->uplink;
        if (event->message.kind == ALLOT_OWNER)
            event->message.secret = (ProtobufCBinaryData){ALLOT_SECRET, event->secret};
        list[i] = &event->message;
    }
    all.n_events = count;
    all.events = list;
    if (list) {
        *size = tutti__stored_events__get_packed_size(&all);
        bytes = malloc(*size + 1);
    }
    if (bytes)
        tutti__stored_events__pack(&all, bytes);
    free(list);
    return bytes;
}

/* ---- reading ---- */

void stored_forget(struct stored *stored)
{
    stored->owners = 0;
    stored->last = 0;
    stored_clear(stored);
}

static struct stored_owner *find(const struct stored *stored, uint64_t number)
{
    const struct stored_owner key = {.number = number};
    return stored->owners ? bsearch(&key, stored->owner, stored->owners, sizeof key, by_number) : NULL;
}

static int32_t nic_of(const struct stored *stored, const char *text)
{
    uint8_t address[16];
    return names_address(text, address) ? names_nic(stored->names, address) : -1;
}

static int32_t tenant_of(const struct stored *stored, const char *name)
{
    for (int i = 0; i < stored->tenants->count; i++)
        if (strcmp(stored->tenants->tenant[i].name, name) == 0)
            return i;
    return -1;
}

static tutti_result_t keep_owner(struct stored *stored, uint64_t number, int32_t place)
{
    if (stored->owners == stored->owner_room) {
        size_t room = stored->owner_room ? stored->owner_room * 2 : 64;
        struct stored_owner *more = realloc(stored->owner, room * sizeof *more);
        if (!more)
            return error_note(TUTTI_SYSTEM_ERROR, "no memory for %zu owners of lanes", room);
        stored->owner = more;
        stored->owner_room = room;
    }
    stored->owner[stored->owners++] = (struct stored_owner){number, place};
    stored->last = number;
    if (place >= 0)
        stored->number_of[place] = number;
    return TUTTI_SUCCESS;
}

static tutti_result_t apply_owner(struct stored *stored, struct allot *allot, const Tutti__StoredEvent *from,
                                  int32_t *dropped)
{
    struct allot_event event = {
        .kind = ALLOT_OWNER, .owner = allot_next_owner(allot), .tenant = tenant_of(stored, from->tenant)};
    bool whole = from->secret.len == ALLOT_SECRET && from->owner > stored->last;
    if (whole)
        memcpy(event.secret, from->secret.data, ALLOT_SECRET);
    if (!whole || event.tenant < 0 || event.owner < 0 || allot_apply(allot, &event)) {
        ++*dropped;
        event.owner = -1;
    }
    return from->owner > stored->last ? keep_owner(stored, from->owner, event.owner) : TUTTI_SUCCESS;
}

tutti_result_t stored_apply(struct stored *stored, struct allot *allot, const Tutti__StoredEvent *from,
                            int32_t *dropped)
{
    if (from->kind == ALLOT_OWNER)
        return apply_owner(stored, allot, from, dropped);
    struct stored_owner *owner = from->kind == ALLOT_LINK ? NULL : find(stored, from->owner);
    struct allot_event event = {.kind = (enum allot_kind)from->kind,
                                .owner = owner ? owner->place : -1,
                                .number = from->number,
                                .from = nic_of(stored, from->from),
                                .to = nic_of(stored, from->to),
                                .weight = from->weight,
                                .uplink = names_uplink(stored->names, from->uplink),
                                .side = (uint8_t)from->side,
                                .port = (uint16_t)from->port,
                                .wave = from->wave,
                                .percent = from->percent,
                                .probed = from->probed};
    tutti_result_t result = allot_apply(allot, &event);
    if (from->kind == ALLOT_LEAVE && owner)
        owner->place = -1;
    if (result != TUTTI_INVALID_ARGUMENT)
        return result;
    *dropped += from->kind == ALLOT_GIVE;
    return TUTTI_SUCCESS;
}
