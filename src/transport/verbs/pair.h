/* SPDX-License-Identifier: Apache-2.0 */
/* A lane's queue pair, which ends in end.c. */
#ifndef TUTTI_TRANSPORT_VERBS_PAIR_H
#define TUTTI_TRANSPORT_VERBS_PAIR_H

#include "transport/verbs/verbs.h"

/* Makes it, with its buffers, and fills lane->mine. TUTTI_IN_PROGRESS: the owner does not know the source port of
 * packets to the peer yet. On failure verbs_pair_close() (end.h) takes back what there is. */
tutti_result_t verbs_pair_open(struct verbs_lane *lane, const struct wire_process *peer);
/* Joins it to that of the peer's info. */
tutti_result_t verbs_pair_join(struct verbs_lane *lane, const struct verbs_info *theirs);

#endif
