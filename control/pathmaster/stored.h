/* SPDX-License-Identifier: Apache-2.0 */
/* Events as bytes, which another master reads, perhaps by another file of the fabric: everything has its name. */
#ifndef TUTTI_PATHMASTER_STORED_H
#define TUTTI_PATHMASTER_STORED_H

#include "pathmaster/allot.h"
#include "pathmaster/names.h"
#include "pathmaster/pathmaster.pb-c.h"
#include "pathmaster/tenants.h"

struct stored_event;

struct stored {
    const struct fabric_names *names;
    const struct tenants *tenants;
    struct stored_event *event; /* events noted, and not written */
    size_t count, room;
    uint64_t last;       /* number of an owner */
    uint64_t *number_of; /* of each place of owners */
    struct stored_owner {
        uint64_t number;
        int32_t place; /* -1: it has left, or its tenant is no more */
    } * owner;         /* of the log, in the order of numbers */
    size_t owners, owner_room;
};

/* stored_free() also after a failure. */
tutti_result_t stored_open(struct stored *stored, const struct fabric_names *names, const struct tenants *tenants);
void stored_free(struct stored *stored);

/* Before the event is applied. */
tutti_result_t stored_note(struct stored *stored, const struct allot_event *event);
/* Notes the events that make a state. */
tutti_result_t stored_all(struct stored *stored, const struct allot *allot);
/* A part of what is noted; the caller frees it. NULL: no memory. */
uint8_t *stored_pack(const struct stored *stored, size_t from, size_t count, size_t *size);
void stored_clear(struct stored *stored);

/* What is read goes to an empty state, from the first event on. */
void stored_forget(struct stored *stored);
/* An event that no longer fits is left out; of lanes and owners that is counted. */
tutti_result_t stored_apply(struct stored *stored, struct allot *allot, const Tutti__StoredEvent *event,
                            int32_t *dropped);

#endif
