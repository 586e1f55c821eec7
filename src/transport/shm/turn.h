/* SPDX-License-Identifier: Apache-2.0 */
/* Polls of lanes whose slot has come. */
#ifndef TUTTI_TRANSPORT_SHM_TURN_H
#define TUTTI_TRANSPORT_SHM_TURN_H

#include "transport/shm/shm.h"

/* Receives on them. Returns how much was done. */
int shm_turn_poll(struct shm_transport *shm);

#endif
