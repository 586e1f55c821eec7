/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of a relay: which are taken, and when their memory is made and given back. */
#include "executor/staged/relay_slots.h"

int relay_slots_take(struct relay_slots *slots, int channel, uint64_t now)
{
    slots->wanted = now;
    if (slots->state != RELAY_MADE)
        return -1;
    for (int i = 0; i < slots->each; i++) {
        if (slots->taken[channel] >> i & 1)
            continue;
        slots->taken[channel] |= 1u << i;
        slots->used = now;
        return i;
    }
    return -1;
}

void relay_slots_give(struct relay_slots *slots, int channel, int slot, uint64_t now)
{
    slots->taken[channel] &= ~(1u << slot);
    slots->used = now;
}

static bool relay_slots_are_taken(const struct relay_slots *slots)
{
    uint32_t any = 0;
    for (int i = 0; i < ENGINE_MOST; i++)
        any |= slots->taken[i];
    return any;
}

/* Wanted of late, and not refused of late. */
static bool relay_slots_lack(const struct relay_slots *slots, uint64_t now)
{
    return slots->wanted && now - slots->wanted < RELAY_IDLE &&
           (!slots->refused || now - slots->refused >= RELAY_AGAIN);
}

enum relay_step relay_slots_next(struct relay_slots *slots, const struct relay_news *news, uint64_t now)
{
    bool away = news->asked || news->low || news->closed;
    if (slots->state == RELAY_NONE)
        return !away && relay_slots_lack(slots, now) ? RELAY_MAKE : RELAY_STAY;
    if (slots->state == RELAY_MADE && (away || (now > slots->used && now - slots->used >= RELAY_IDLE)))
        slots->state = RELAY_ENDING;
    return slots->state == RELAY_ENDING && !relay_slots_are_taken(slots) ? RELAY_FREE : RELAY_STAY;
}

void relay_slots_made(struct relay_slots *slots, int each, uint64_t now)
{
    slots->each = each;
    slots->state = each ? RELAY_MADE : RELAY_NONE;
    slots->used = now;
    slots->refused = each ? 0 : now;
}

void relay_slots_freed(struct relay_slots *slots)
{
    slots->state = RELAY_NONE;
    slots->wanted = 0;
}
