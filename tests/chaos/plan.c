/* SPDX-License-Identifier: Apache-2.0 */
/* What an era is like, drawn from the seed. */
#include "chaos.h"

static const struct {
    const char *name;
    int weight;
} faults[FAULTS] = {{"none", 1}, {"kill", 5}, {"pause", 3}, {"stop", 1}, {"abort", 4}};

const char *fault_name(enum fault fault)
{
    return faults[fault].name;
}

static enum fault draw_fault(uint64_t hash)
{
    int total = 0, fault = 0;
    for (int i = 0; i < FAULTS; i++)
        total += faults[i].weight;
    for (int at = (int)(hash % (uint64_t)total); at >= faults[fault].weight; fault++)
        at -= faults[fault].weight;
    return (enum fault)fault;
}

struct plan plan_draw(uint64_t seed, uint64_t era, int members)
{
    static const int abortable[] = {0, 2, 3, 4};
    uint64_t h = data_hash(seed, era * 1000 + (uint64_t)members), g = data_hash(h, 1);
    struct plan plan = {.fault = draw_fault(h >> 8),
                        .victim = (int)(h % (uint64_t)members),
                        .second = -1,
                        .after_ms = (int)(g % 300),
                        .second_after_ms = (int)(g / 512 % 2 ? 0 : g / 1024 % 100),
                        .pause_ms = 10 + (int)(g / 4096 % 600),
                        .aborted = abortable[g / 65536 % 4],
                        .leaving = (int)(g / 1048576 % 4),
                        .non_blocking = g / 4194304 % 4 == 0,
                        .two_inits = g / 16777216 % 4 == 0};
    if (plan.fault == FAULT_KILL && members > 3 && data_hash(g, 2) % 3 == 0)
        plan.second = (plan.victim + 1 + (int)(data_hash(g, 3) % (uint64_t)(members - 1))) % members;
    if (plan.fault == FAULT_STOP)
        plan.pause_ms = TIMEOUT_MS + 4000;
    return plan;
}

int plan_color(int comm, int members, int place)
{
    return comm == 2 ? place % 2 : comm == 3 ? place < members / 2 : 0;
}

int plan_key(int comm, int members, int place)
{
    return comm == 3 ? members - place : comm == 4 ? (place + 1) % members : place;
}

int plan_rank(int comm, int members, int asker, int who)
{
    int color = plan_color(comm, members, asker), rank = 0;
    if (plan_color(comm, members, who) != color)
        return -1;
    for (int place = 0; place < members; place++)
        if (plan_color(comm, members, place) == color && plan_key(comm, members, place) < plan_key(comm, members, who))
            rank++;
    return rank;
}

int plan_size(int comm, int members, int asker)
{
    int size = 0;
    for (int place = 0; place < members; place++)
        size += plan_color(comm, members, place) == plan_color(comm, members, asker);
    return size;
}
