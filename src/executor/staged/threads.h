/* SPDX-License-Identifier: Apache-2.0 */
/* How many threads stage a rank's memory: by the processors that ranks may run on, and by who shares them. */
#ifndef TUTTI_EXECUTOR_STAGED_SHARE_H
#define TUTTI_EXECUTOR_STAGED_SHARE_H

#include "engine/team.h"

#define SHARE_MOST 8 /* threads, unless the user wants more */

/* What a rank tells the others. */
struct share {
    uint64_t host, set; /* ranks with the same of both run on the same processors */
    uint32_t processors;
    uint32_t wish;        /* threads; 0: by the processors */
    uint64_t folds;       /* its GPU reduces what is staged */
    uint64_t relays;      /* GPUs that may relay for its own */
    uint64_t direct_from; /* bytes of a message from which adapters reach the GPU's memory; SIZE_MAX: they do not */
};

struct share share_of(const struct team *team);
/* As many as the rank that wants the fewest. */
int share_channels(const struct share *all, int nranks);
bool share_folds(const struct share *all, int nranks);
int share_relays(const struct share *all, int nranks);
/* What all ranks' adapters do. */
size_t share_direct_from(const struct share *all, int nranks);
/* Would `channels` threads of each rank leave less than half of the rank's processors? */
bool share_crowds(const struct share *all, int nranks, int rank, int channels);
/* To the log. */
void share_report(const struct team *team, const struct share *mine, int channels);

#endif
