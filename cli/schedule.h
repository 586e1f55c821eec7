/* SPDX-License-Identifier: Apache-2.0 */
/* tutti schedule. */
#ifndef TUTTI_CLI_SCHEDULE_H
#define TUTTI_CLI_SCHEDULE_H

#include "plan/plan.h"

/* argv[0] is "schedule". Returns the exit status: 0, 1 failed, 2 wrong use. */
int cmd_schedule(int argc, char **argv);

/*
 * Prints the plan of GPUs for a call of these bytes, and names the way, which is an algorithm. False: the place is
 * unknown, or has more GPUs than kernels know.
 */
bool schedule_plan(enum coll coll, int nranks, uint64_t bytes, const char *where, bool captured, const char **way);

/* The ways of GPUs at a place ("processes", "process", "mixed", "host"), by the settings in force here. */
struct plan_facts schedule_facts(const char *where, int nranks);

#endif
