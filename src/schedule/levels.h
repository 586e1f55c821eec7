/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ranks are near one another: groups of ranks, in levels. GPUs of an island reach one another by NVLink. Ranks of
 * one host share memory. Hosts are joined by a network that is slower and shared by the ranks of a host. Hosts lie in
 * racks, zones and so on. A shape with levels lets algorithms send little far away, and a price count what goes there
 * apart.
 */
#ifndef TUTTI_SCHEDULE_LEVELS_H
#define TUTTI_SCHEDULE_LEVELS_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stdint.h>

#define LEVELS_MOST 8

/* Groups of one level. A group of the level below lies in one of them as a whole. */
struct level {
    int groups;
    int least, most;      /* ranks of the group that has fewest, and most */
    const int32_t *group; /* by rank: 0 .. groups - 1 */
    const int32_t *first; /* by group: the position of its first rank; one more entry is nranks */
};

/*
 * Positions order ranks by distance: those of a group follow one another, on every level. Groups come by their first
 * ranks, among those of one group of the level above. So hosts of a rack follow one another, and racks of a zone. The
 * same on all ranks.
 */
struct levels {
    int nranks, depth;               /* levels */
    int host;                        /* the level whose groups are hosts */
    bool in_order;                   /* each rank's position is its number */
    const int32_t *order;            /* by position: the rank */
    const int32_t *position;         /* by rank; of ranks in order the same memory */
    size_t bytes;                    /* of all this */
    struct level level[LEVELS_MOST]; /* the nearest first */
};

/* What ranks say of themselves, for levels of any depth. */
struct levels_of {
    int nranks, depth, host;          /* as in struct levels: at least one level, at most LEVELS_MOST */
    const uint64_t *key[LEVELS_MOST]; /* by level, by rank: equal keys, one group; 0, but of hosts: not told, so it is
                                         with nobody. A group of the level below has its first rank's */
};

/* free() it. TUTTI_SYSTEM_ERROR: no memory. */
tutti_result_t levels_make(const struct levels_of *of, struct levels **out);
/* Of hosts alone: host[r] names the host of rank r. */
tutti_result_t levels_of_hosts(const uint64_t *host, int nranks, struct levels **out);

static inline const struct level *levels_hosts(const struct levels *levels)
{
    return &levels->level[levels->host];
}
/* Of several hosts, are some ranks nearer to one another than to others: of one host, or of one rack, zone and so on?
 */
static inline bool levels_differ(const struct levels *levels)
{
    bool differ = false;
    for (int i = levels->host; i < levels->depth; i++)
        differ |= levels->level[i].groups > 1 && levels->level[i].most > 1;
    return differ && levels_hosts(levels)->groups > 1;
}
/* The levels that schedules look at: NULL where all ranks are on one host, or all are equally far. */
static inline const struct levels *levels_of_schedules(const struct levels *levels)
{
    return levels && levels_differ(levels) ? levels : NULL;
}
/* Levels whose hosts make a difference: NULL where all ranks are on one host, or each has its own. */
static inline const struct levels *levels_between_hosts(const struct levels *levels)
{
    return levels && levels_hosts(levels)->groups > 1 && levels_hosts(levels)->most > 1 ? levels : NULL;
}

#endif
