/* SPDX-License-Identifier: Apache-2.0 */
/* What has arrived on verbs lanes, and what was sent. */
#ifndef TUTTI_TRANSPORT_VERBS_RECEIVE_H
#define TUTTI_TRANSPORT_VERBS_RECEIVE_H

#include "transport/verbs/verbs.h"

/* Posts receive `index`. False: the lane has failed. */
bool verbs_post_receive(struct verbs_lane *lane, uint32_t index);
/* Handles up to VERBS_BATCH completions of a device. Returns how many. */
int verbs_complete(struct verbs_device *device);

#endif
