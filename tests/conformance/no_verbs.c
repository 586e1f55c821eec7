/* SPDX-License-Identifier: Apache-2.0 */
/* In place of the tests of RDMA verbs, where their headers were not to be had. */
#include "suite.h"

const struct group verbs_group = {"verbs", NULL, 0, NULL}, ports_group = {"ports", NULL, 0, NULL},
                   lost_group = {"lost", NULL, 0, NULL}, calls_group = {"calls", NULL, 0, NULL};
