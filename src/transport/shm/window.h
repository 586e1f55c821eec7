/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory a direction of a lane uses. */
#ifndef TUTTI_TRANSPORT_SHM_WINDOW_H
#define TUTTI_TRANSPORT_SHM_WINDOW_H

#include "transport/shm/shm.h"

/* What ring_reserve() gives; if that is nothing, asks for what will do later. */
void *shm_reserve(struct shm_lane *lane, size_t size);
/* Bulk comes: as wide a window as can be had, for a ring that is small bounces between two caches. */
void shm_widen(struct shm_lane *lane);
/* May the stages be used? They are memory of the lane's, too. */
bool shm_window_stage(struct shm_lane *lane);
/* A message of this size can never go in the window as it is, and nothing has been done about that yet. */
bool shm_window_short(const struct shm_lane *lane, size_t size);
/* The lane's memory is mapped; it is about to be unmapped. */
void shm_window_open(struct shm_lane *lane);
void shm_window_close(struct shm_lane *lane);

#endif
