/* SPDX-License-Identifier: Apache-2.0 */
/* Sending on a shared-memory lane. */
#ifndef TUTTI_TRANSPORT_SHM_SEND_H
#define TUTTI_TRANSPORT_SHM_SEND_H

#include "transport/shm/shm.h"

tutti_result_t shm_msg(struct lane *lane, const struct iovec *parts, int count);
tutti_result_t shm_put(struct lane *lane, const struct put *put);
tutti_result_t shm_lend(struct lane *lane, const struct iovec parts[2], uint64_t token);
void shm_give_up(struct lane *lane, uint64_t token);
/* The lane ends. */
void shm_forget_lent(struct shm_lane *lane);
/* Goes on with puts, and tells the owner of room. Returns how much was done. */
int shm_progress(struct shm_lane *lane);
/* Could shm_progress do something? */
bool shm_can_progress(struct shm_lane *lane);

#endif
