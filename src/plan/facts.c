/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of a communicator. */
#include "plan/facts.h"

#include "base/param.h"

struct facts_settings facts_settings(void)
{
    return (struct facts_settings){.copies = param_int(PARAM_COPY_FROM) > 0,
                                   .copies_processes = param_int(PARAM_COPY_PROCESSES) != 0,
                                   .through_scratch = param_int(PARAM_P2P_DIRECT_DISABLE) != 0,
                                   .protocols = plan_protocols(),
                                   .blocks_least = (unsigned)param_int(PARAM_BLOCKS_LEAST)};
}

/* How ranks share processes. */
struct facts_processes {
    bool one, each; /* all ranks are in one; each has its own */
};

static struct facts_processes facts_processes(const struct facts_peer *peers, int nranks)
{
    struct facts_processes found = {true, true};
    for (int a = 0; a < nranks; a++)
        for (int b = 0; b < a; b++) {
            bool same = wire_same_process(peers[a].process, peers[b].process);
            found.one = found.one && same;
            found.each = found.each && !same;
        }
    return found;
}

/* Some rank cannot, or will not, have windows on GPUs. */
static bool facts_in_host(const struct facts_peer *peers, int nranks)
{
    for (int rank = 0; rank < nranks; rank++)
        if (peers[rank].wants_host || peers[rank].refused || peers[rank].reaches != (1u << nranks) - 1)
            return true;
    return false;
}

static bool facts_whole(const struct facts_peer *peers, int nranks)
{
    for (int rank = 0; rank < nranks; rank++)
        if ((peers[rank].whole | 1u << rank) != (1u << nranks) - 1)
            return false;
    return true;
}

/*
 * Where queues are few, a stream that waits for a peer's copy could hold up what the peer waits for. So could a copy
 * that waits for its turn. A kernel that waits holds up nothing.
 */
static bool facts_few_queues(const struct facts_peer *peers, int nranks)
{
    for (int rank = 0; rank < nranks; rank++)
        if (peers[rank].few_queues)
            return true;
    return false;
}

/* Where a GPU has few processors all launch few blocks: kernels meet block by block. */
static struct kernel_room facts_room(const struct facts_peer *peers, int nranks, unsigned least)
{
    uint32_t processors = peers[0].processors;
    for (int rank = 1; rank < nranks; rank++)
        processors = peers[rank].processors < processors ? peers[rank].processors : processors;
    return kernel_room(processors, least, peers[0].blocks);
}

struct plan_facts facts_of(const struct facts_peer *peers, int nranks, const struct facts_settings *settings)
{
    const struct facts_processes processes = facts_processes(peers, nranks);
    const bool in_host = facts_in_host(peers, nranks), zero = peers[0].policy == TUTTI_POLICY_ZERO,
               kept_apart = settings->through_scratch && !processes.each; /* some ranks' memory, from one another */
    return (struct plan_facts){.nranks = nranks,
                               .loads = nranks > 1 && !in_host && processes.one && !settings->through_scratch,
                               .copies = (settings->copies || zero) && !in_host && !facts_few_queues(peers, nranks) &&
                                         !kept_apart && (processes.one || settings->copies_processes || zero),
                               .in_host = in_host,
                               .apart = processes.each,
                               .lines =
                                   !in_host && (settings->protocols >> KERNEL_LINES & 1) && facts_whole(peers, nranks),
                               .zero = zero,
                               .protocols = settings->protocols,
                               .room = facts_room(peers, nranks, settings->blocks_least)};
}
