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

static void check_levels(const struct introduction *all)
{
    const struct wire_process *process[RANKS];
    const struct rank_fact *fact[RANKS];
    struct levels *levels;
    for (int rank = 0; rank < RANKS; rank++) {
        process[rank] = &all[rank].process;
        fact[rank] = &all[rank].fact;
        check_fact(fact[rank]);
    }
    must(team_levels(process, fact, RANKS, &levels) == TUTTI_SUCCESS);
    for (int rank = 0; rank < RANKS; rank++)
        must(levels->order[levels->position[rank]] == rank);
    free(levels);
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
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct introduction all[RANKS];
    struct settings settings[RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        introduction_begin(&all[rank], false, 0);
        settings_here(&settings[rank]);
    }
    change(all, data, size % 64);
    tutti_result_t result = introductions_compare(all, RANKS, 2);
    if (size > 64 && size < 64 + sizeof settings)
        memcpy(settings, data + 64, size - 64);
    must(settings_refuse(all, settings, RANKS, 2) != TUTTI_SUCCESS);
    if (result == TUTTI_SUCCESS || result == TUTTI_IN_PROGRESS)
        check_levels(all);
    return 0;
}
