/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of conformance tests, and their list of tests. */
#ifndef TUTTI_TESTS_SUITE_H
#define TUTTI_TESTS_SUITE_H

#include "owner.h"

struct group {
    const char *name;
    const struct CMUnitTest *tests;
    size_t count;
    CMFixtureFunction restore; /* after the last test, NULL: none */
};

extern const struct group basic_group, order_group, close_group, process_group, hostile_group, memory_group, pass_group,
    faults_group, direct_group, verbs_group, ports_group, lost_group, calls_group, unreachable_group, unsealed_group,
    lent_group, staged_group;

#endif
