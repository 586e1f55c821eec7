/* SPDX-License-Identifier: Apache-2.0 */
/* Puts that the receiver reads where they lie. */
#ifndef TUTTI_TRANSPORT_SHM_PULL_H
#define TUTTI_TRANSPORT_SHM_PULL_H

#include "transport/shm/shm.h"

/* Decides how a put is done. */
void shm_choose(struct shm_lane *lane, struct shm_put *put);
/* Reads the next bytes of a put where they lie. True: it is done with. */
bool shm_pull(struct shm_lane *lane, const struct ring_pull *pull);
/* Does its owner leave the second part of the latest message where it lies, for now? */
bool shm_borrow_waits(struct shm_lane *lane, const struct ring_pull *pull, const void *head);
/* The second part of a message, whose first part is `head`. */
void shm_borrow(struct shm_lane *lane, const struct ring_pull *pull, const void *head);

#endif
