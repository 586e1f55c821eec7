/* SPDX-License-Identifier: Apache-2.0 */
/* The one lock of the stand-in. Simple rather than fast: one mutex guards all objects, one condition variable tells of
 * every finished operation. */
#pragma once

#include "cuda/cuda_abi.h"

#include <pthread.h>
#include <stdbool.h>

void state_lock(void);
bool state_try_lock(void);
void state_unlock(void);
void state_changed(void); /* wakes whoever is in state_wait */
void state_wait(void);    /* with the lock held; returns with it held */
void state_wait_for(pthread_cond_t *condition);

void state_mark_ready(void);                  /* cuInit was called */
bool state_is_ready(void);                    /* here, and not before a fork: threads do not survive that */
bool state_in_callback(bool set, bool value); /* the thread runs a host function, which may not call the driver */
