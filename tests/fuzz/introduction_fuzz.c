/* SPDX-License-Identifier: Apache-2.0 */
/* Introductions of ranks that say anything. What is taken is within its bounds, and groups into levels. */
#include "comm/introduction.h"
#include "engine/team_open.h"
#include "inputs.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 5 };

/* Nothing behind the end, each port once. */
static void check_fact(const struct rank_fact *fact)
{
    unsigned seen = 0;
    must(strnlen(fact->bus_id, sizeof fact->bus_id) < sizeof fact->bus_id);
    for (int i = 0; i < WIRE_DEVICES; i++) {
        must(fact->nic[i] < WIRE_DEVICES || fact->nic[i] == WIRE_NO_NIC);
        must(fact->nic[i] == WIRE_NO_NIC || !(seen >> fact->nic[i] & 1));
        seen |= fact->nic[i] == WIRE_NO_NIC ? 0 : 1u << fact->nic[i];
    }
}

static void from_said(const void *context, int rank, struct roster_entry *out)
{
    struct introduction room;
    must(introduction_of(context, rank, &room) != NULL);
    check_fact(&room.fact);
    *out = (struct roster_entry){room.process, room.fact.island};
}

/* What a roster keeps is what was said. */
static void check_levels(const struct introductions *all)
{
    const struct roster *roster = roster_make(RANKS, from_said, all);
    struct roster_cursor cursor = {.roster = roster};
    struct levels *levels;
    must(roster != NULL);
    for (int rank = RANKS - 1; rank >= 0; rank--) {
        struct roster_entry said;
        from_said(all, rank, &said);
        must(memcmp(roster_read(&cursor, &roster->row[rank]), &said, sizeof said) == 0);
    }
    must(team_levels(roster, NULL, RANKS, &levels) == TUTTI_SUCCESS);
    for (int rank = 0; rank < RANKS; rank++)
        must(levels->order[levels->position[rank]] == rank);
    free(levels);
    roster_release(roster);
}

/* Each four bytes change one: what makes no sense in other ways would never come far. */
static void change(struct introduction *all, const uint8_t *data, size_t size)
{
    for (; size >= 4; data += 4, size -= 4) {
        size_t at = (size_t)data[0] << 8 | data[1];
        ((uint8_t *)&all[data[2] % RANKS])[at % sizeof *all] = data[3];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* As they are sent; then bytes of these change, too. */
static void send(const struct introduction *all, const uint8_t *data, size_t size, struct introductions *out)
{
    static struct introduction_first first[RANKS];
    static uint8_t more[RANKS][INTRODUCTION_MOST], packed[RANKS * INTRODUCTION_MOST];
    for (int rank = 0; rank < RANKS; rank++)
        introduction_pack(&all[rank], &first[rank], more[rank]);
    for (; size >= 4; data += 4, size -= 4)
        ((uint8_t *)&first[data[2] % RANKS])[((size_t)data[0] << 8 | data[1]) % sizeof *first] = data[3];
    *out = (struct introductions){.nranks = RANKS, .first = first, .more = packed};
    out->each = introductions_more(first, RANKS);
    for (int rank = 0; rank < RANKS; rank++)
        memcpy(packed + (size_t)rank * out->each, more[rank], out->each);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct introduction all[RANKS];
    struct settings settings[RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        introduction_begin(&all[rank], false, 0);
        settings_here(&settings[rank]);
    }
    struct introductions said;
    change(all, data, size % 64);
    send(all, data + size % 64, size > 96 + sizeof settings ? size % 32 : 0, &said);
    tutti_result_t result = introductions_compare(&said, 2);
    if (size > 64 && size < 64 + sizeof settings)
        memcpy(settings, data + 64, size - 64);
    must(settings_refuse(&said, settings, 2) != TUTTI_SUCCESS);
    if (result == TUTTI_SUCCESS || result == TUTTI_IN_PROGRESS)
        check_levels(&said);
    return 0;
}
