/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a verbs lane. */
#ifndef TUTTI_TRANSPORT_VERBS_LANE_H
#define TUTTI_TRANSPORT_VERBS_LANE_H

#include "transport/verbs/verbs.h"

tutti_result_t verbs_lane_open(struct transport *transport, const struct wire_process *peer, uint16_t index,
                               uint32_t epoch, uint32_t known, uint64_t session, void *user, struct lane **out);
void verbs_lane_reap(struct lane *lane);
void verbs_greeted(struct acceptor *acceptor, int fd, const void *greeting, int fds[ACCEPTOR_FDS]);

#endif
