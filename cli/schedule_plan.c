/* SPDX-License-Identifier: Apache-2.0 */
/* tutti schedule --plan: what GPUs would do for a call, by the settings in force here. */
#include "cli/schedule.h"

#include "base/param.h"
#include "plan/plan.h"

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

struct plan_facts schedule_facts(const char *where, int nranks)
{
    enum schedule_plan_place place = place_of(where);
    bool zero = param_int(PARAM_CTA_POLICY) % 3 == TUTTI_POLICY_ZERO, gpu = place != HOST;
    unsigned least = (unsigned)param_int(PARAM_BLOCKS_LEAST), most = (unsigned)param_int(PARAM_BLOCKS);
    return (struct plan_facts){.nranks = nranks,
                               .loads = place == PROCESS && nranks > 1 && !param_int(PARAM_P2P_DIRECT_DISABLE),
                               .copies = gpu && (zero || param_int(PARAM_COPY_FROM) > 0),
                               .in_host = !gpu,
                               .apart = place == PROCESSES || place == SYMMETRIC,
                               .symmetric = place == SYMMETRIC,
                               .lines = gpu,
                               .zero = zero,
                               .protocols = plan_protocols(),
                               .room = kernel_room(PROCESSORS, least, most)};
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
