/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing: a key's place is the first free one from where the key points. */
#include "base/slots.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_LEAST 64

static void slots_place(struct slots *slots, struct slots_one what)
{
    size_t at = (size_t)what.key;
    while (slots->slot[at & (slots->room - 1)].used)
        at++;
    slots->slot[at & (slots->room - 1)] = what;
    slots->used++;
}

bool slots_put(struct slots *slots, uint64_t key, uint32_t number)
{
    if (2 * (slots->used + 1) > slots->room) {
        size_t room = slots->room ? 2 * slots->room : SLOTS_LEAST;
        struct slots more = {.slot = calloc(room, sizeof *more.slot), .room = room};
        if (!more.slot)
            return false;
        for (size_t i = 0; i < slots->room; i++)
            if (slots->slot[i].used)
                slots_place(&more, slots->slot[i]);
        free(slots->slot);
        *slots = more;
    }
    slots_place(slots, (struct slots_one){key, number + 1});
    return true;
}

void slots_clear(struct slots *slots)
{
    if (slots->room)
        memset(slots->slot, 0, slots->room * sizeof *slots->slot);
    slots->used = 0;
}

void slots_free(struct slots *slots)
{
    free(slots->slot);
    *slots = (struct slots){0};
}

int64_t slots_next(const struct slots *slots, uint64_t key, size_t *turn)
{
    for (; *turn < slots->room; ++*turn) {
        const struct slots_one *slot = &slots->slot[((size_t)key + *turn) & (slots->room - 1)];
        if (!slot->used)
            break;
        if (slot->key == key) {
            ++*turn;
            return (int64_t)slot->used - 1;
        }
    }
    return -1;
}
