/* SPDX-License-Identifier: Apache-2.0 */
/* The number of staging threads. Half of the processors are left to the user. */
#include "executor/staged/threads.h"

#include "base/affinity.h"
#include "base/log.h"
#include "base/param.h"
#include "base/random.h"
#include "executor/staged/staged.h"

#include <unistd.h>

struct share share_of(const struct team *team)
{
    cpu_set_t set;
    int count = affinity_count(&set);
    return (struct share){.host = team_row(team, team->rank)->host,
                          .set = hash_bytes(0, &set, sizeof set),
                          .processors = count ? (uint32_t)count : 1,
                          .wish = (uint32_t)param_int(PARAM_STAGE_THREADS)};
}

static int threads_for(long processors, int ranks)
{
    long each = processors / (2 * ranks);
    return (int)(each < SHARE_MOST ? each : SHARE_MOST);
}

/* A launcher may give ranks the same processors, or to each its own. */
static int sharers(const struct share *all, int nranks, int rank)
{
    int ranks = 0;
    for (int i = 0; i < nranks; i++)
        ranks += all[i].host == all[rank].host && all[i].set == all[rank].set;
    return ranks;
}

static int threads_wanted(const struct share *all, int nranks, int rank)
{
    int wish = (int)all[rank].wish;
    if (wish == 0)
        wish = threads_for(all[rank].processors, sharers(all, nranks, rank));
    return wish < 1 ? 1 : wish > ENGINE_MOST ? ENGINE_MOST : wish;
}

int share_channels(const struct share *all, int nranks)
{
    int fewest = ENGINE_MOST;
    for (int rank = 0; rank < nranks; rank++) {
        int wish = threads_wanted(all, nranks, rank);
        fewest = wish < fewest ? wish : fewest;
    }
    return fewest;
}

bool share_folds(const struct share *all, int nranks)
{
    bool folds = true;
    for (int rank = 0; rank < nranks; rank++)
        folds &= all[rank].folds != 0;
    return folds;
}

int share_relays(const struct share *all, int nranks)
{
    uint64_t fewest = all[0].relays;
    for (int rank = 1; rank < nranks; rank++)
        fewest = all[rank].relays < fewest ? all[rank].relays : fewest;
    return (int)fewest;
}

size_t share_direct_from(const struct share *all, int nranks)
{
    uint64_t from = 1; /* what has no bytes goes otherwise */
    for (int rank = 0; rank < nranks; rank++)
        from = all[rank].direct_from > from ? all[rank].direct_from : from;
    return (size_t)from;
}

bool share_crowds(const struct share *all, int nranks, int rank, int channels)
{
    return (uint32_t)(2 * sharers(all, nranks, rank) * channels) > all[rank].processors;
}

void share_report(const struct team *team, const struct share *mine, int channels)
{
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    log_info("rank %d: threads that carry what GPUs exchange through host memory: %d", team->rank, channels);
    if (team->local_rank == 0 && 2 * (int)mine->processors <= threads_for(all, team->local_ranks))
        log_warn("rank %d may run on %u of %ld processors, too few for what its GPU exchanges through host memory; if "
                 "its launcher binds it, "
                 "tell it not to (mpirun: --bind-to none)",
                 team->rank, mine->processors, all);
}
