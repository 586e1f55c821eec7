/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a verbs lane. */
#ifndef TUTTI_TRANSPORT_VERBS_END_H
#define TUTTI_TRANSPORT_VERBS_END_H

#include "transport/verbs/verbs.h"

/* Gives it a place by which its work requests are known. False: no memory. */
bool verbs_take_place(struct verbs_lane *lane);
/* From here on no adapter reads or writes anything for the lane. */
void verbs_pair_close(struct verbs_lane *lane);
/* Gives the memory of the buffers back, of which upcalls know until then. */
void verbs_pair_free(struct verbs_lane *lane);
/* The lane of a queue pair with shared receives is found by it from here on. */
void verbs_join_pairs(struct verbs_lane *lane);
/* NULL: it is closed. */
struct verbs_lane *verbs_lane_by_pair(const struct verbs_device *device, uint32_t queue);
/* The lane of a work request; NULL: it is closed. */
struct verbs_lane *verbs_lane_by_number(const struct verbs_transport *verbs, uint64_t number);
void verbs_lane_close(struct lane *lane);
/* The lane fails: its queue pair ends at once, and down() follows; one that its owner does not know of is gone. */
tutti_result_t verbs_fail(struct verbs_lane *lane, const char *what, int error);

#endif
