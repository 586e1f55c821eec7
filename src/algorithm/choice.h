/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which algorithm runs. In this order: TUTTI_ALGO; the rules of a tuned table (a JSON file that `tutti tune` writes);
 * the built-in rows of tables/choice.tbl. All ranks of a communicator must come to the same answer: compare
 * choice_hash() when they meet, and give every rank the same arguments.
 *
 * TUTTI_ALGO is items between ';'. An item is [COLLECTIVE:]NAME[,NAME...]: the first NAME that takes the shape runs. A
 * '^' before the names says which must not. An item without a collective is for all that have no item of their own.
 * Case does not matter; names of NCCL that tutti has no algorithm for (NVLS, CollNet...) are passed over.
 */
#ifndef TUTTI_ALGORITHM_CHOICE_H
#define TUTTI_ALGORITHM_CHOICE_H

#include "schedule/schedule.h"
#include "tutti/tutti.h"

/* What the slowest pair of ranks is joined by. */
enum choice_class { CHOICE_SHM, CHOICE_TCP, CHOICE_CLASS_COUNT };

enum choice_capability {
    CHOICE_SHARED = 1, /* all ranks load and store each other's memory */
    CHOICE_HOSTS = 2,  /* there are several hosts, and some hold several ranks */
    CHOICE_ALIKE = 4,  /* each host holds as many */
    CHOICE_FAR = 8     /* some ranks are farther from one another than others */
};

struct choice_table;

struct choice_rule {
    enum coll coll;
    uint32_t classes;         /* set of 1u << enum choice_class */
    bool shared;              /* only with CHOICE_SHARED */
    int min_ranks, max_ranks; /* both included */
    uint64_t max_bytes;       /* included; UINT64_MAX: no limit */
    const struct algorithm *algorithm;
    bool hosts; /* only with CHOICE_HOSTS */
    bool alike; /* only with CHOICE_ALIKE, too */
    bool far;   /* only with CHOICE_FAR */
};

/* By TUTTI_ALGO, and TUTTI_TUNE_FILE or ~/.config/tutti/tune.json if that exists. TUTTI_INVALID_ARGUMENT names what is
 * wrong, where. */
tutti_result_t choice_open(struct choice_table **out);
/* By an override and a file, either NULL or "" for none. */
tutti_result_t choice_open_with(const char *override, const char *path, struct choice_table **out);
/* For one more owner, each of which closes it. Communicators that come of another choose as it does, whatever became of
 * the file: their ranks do not compare rules again. */
struct choice_table *choice_share(struct choice_table *table);
void choice_close(struct choice_table *table);

/* Never NULL for nranks >= 1. `bytes`: of the whole vector, n blocks where each rank has one; ignored for alltoallv,
 * whose ranks do not know each other's sizes. `capabilities`: enum choice_capability. */
const struct algorithm *choice_pick(const struct choice_table *table, enum coll coll, int nranks, size_t bytes,
                                    uint32_t capabilities, enum choice_class choice_class);

/* Ranks with the same hash make the same choices. */
uint64_t choice_hash(const struct choice_table *table);

/* Writes the rules of a tuned table; thresholds of GPUs that are in that file stay. Whole or not at all. `comment`:
 * where and when the rules were measured; may be NULL. */
tutti_result_t choice_save(const char *path, const char *comment, const struct choice_rule *rules, int count);

#endif
