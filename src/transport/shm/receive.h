/* SPDX-License-Identifier: Apache-2.0 */
/* Receiving on a shared-memory lane. */
#ifndef TUTTI_TRANSPORT_SHM_RECEIVE_H
#define TUTTI_TRANSPORT_SHM_RECEIVE_H

#include "transport/shm/shm.h"

int shm_receive(struct shm_lane *lane);

#endif
