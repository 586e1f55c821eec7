/* SPDX-License-Identifier: Apache-2.0 */
/* Which lanes polls look at, and the end of one that fails. */
#ifndef TUTTI_TRANSPORT_SHM_WATCH_H
#define TUTTI_TRANSPORT_SHM_WATCH_H

#include "transport/shm/shm.h"

bool shm_watch_add(struct shm_lane *lane);
void shm_watch_remove(struct shm_lane *lane);
/* The watch's place among those of the transport is `index`. */
void shm_watch_place(struct shm_transport *shm, unsigned index, struct shm_watch watch);
bool shm_watch_has_news(const struct shm_watch *watch);
bool shm_watch_news(const struct shm_transport *shm);
/* Polls go on with its puts, or tell its owner of room. */
void shm_activate(struct shm_lane *lane);
/* No more events, polls or deadlines for this lane. */
void shm_lane_silence(struct shm_lane *lane);
tutti_result_t shm_fail(struct shm_lane *lane, const char *what, int error);

#endif
