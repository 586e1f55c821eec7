/* SPDX-License-Identifier: Apache-2.0 */
/* tutti schedule --plan: the plan of GPUs for a call, by the settings in force here. */
#include "cli/schedule.h"

#include "base/param.h"
#include "plan/facts.h"

#include <stdio.h>
#include <string.h>

#define PROCESSORS 132 /* of a GPU (H200), for the number of blocks */

enum schedule_plan_place { PROCESSES, SYMMETRIC, PROCESS, MIXED, HOST, PLACES };

static const struct {
    const char *name, *text;
} places[PLACES] = {{"processes", "a process each"},
                    {"symmetric", "a process each, memory registered with all"},
                    {"process", "one process"},
                    {"mixed", "several processes, some with several"},
                    {"host", "windows in host memory"}};

static enum schedule_plan_place place_of(const char *name)
{
    int place = 0;
    while (place < PLACES && strcmp(places[place].name, name) != 0)
        place++;
    return (enum schedule_plan_place)place;
}

/* Places ranks: those of a process are neighbours; where some processes have several, each has two. */
static int schedule_process(enum schedule_plan_place place, int rank)
{
    return place == PROCESS ? 0 : place == MIXED ? rank / 2 : rank;
}

struct plan_facts schedule_facts(const char *where, int nranks)
{
    enum schedule_plan_place place = place_of(where);
    bool zero = param_int(PARAM_CTA_POLICY) % 3 == TUTTI_POLICY_ZERO;
    const uint32_t all = (1u << nranks) - 1;
    struct facts_peer peers[KERNEL_RANKS];
    struct facts_settings settings = facts_settings();
    for (int rank = 0; rank < nranks; rank++) {
        peers[rank] = (struct facts_peer){.reaches = all,
                                          .whole = all,
                                          .wants_host = place == HOST,
                                          .processors = PROCESSORS,
                                          .blocks = (uint32_t)param_int(PARAM_BLOCKS),
                                          .policy = zero ? TUTTI_POLICY_ZERO : TUTTI_POLICY_DEFAULT};
        peers[rank].process[0] = (uint8_t)schedule_process(place, rank);
    }
    struct plan_facts facts = facts_of(peers, nranks, &settings);
    facts.symmetric = place == SYMMETRIC;
    return facts;
}

bool schedule_plan(enum coll coll, int nranks, uint64_t bytes, const char *where, bool captured, const char **way)
{
    enum schedule_plan_place place = place_of(where);
    if (place == PLACES || nranks > KERNEL_RANKS)
        return false;
    struct plan_facts facts = schedule_facts(where, nranks);
    struct plan_rules rules;
    plan_rules(facts.zero, &rules);
    struct plan plan = plan_call(&rules, &facts, coll, bytes, captured);
    *way = way_name(plan.way)->text;
    printf("%s of %llu bytes, %d GPUs, %s%s: %s", schedule_coll_name(coll), (unsigned long long)bytes, nranks,
           places[place].text, captured ? ", in a graph" : "", *way);
    if (plan.launch.kernel != KERNEL_NONE)
        printf(", kernel %s", plan_kernel_name(plan.launch.kernel));
    if (plan.launch.blocks)
        printf(", %u blocks of %u threads", plan.launch.blocks, plan.launch.threads);
    printf("\n");
    return true;
}
