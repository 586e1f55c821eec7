/* SPDX-License-Identifier: Apache-2.0 */
/* The engines of this process. */
#ifndef TUTTI_ENGINE_ENGINE_LIFE_H
#define TUTTI_ENGINE_ENGINE_LIFE_H

#include "engine/engine.h"

/* One engine for the process, made at the first call and closed at the last release. */
tutti_result_t engine_acquire(struct engine **out);
/* Another engine of this process, which peers take for another process: with links, addresses and a thread of its own.
 * What is split over several of them uses several processors. index: 1 to ENGINE_MOST - 1. While the first one is held:
 * it lends its black box. */
tutti_result_t engine_acquire_more(int index, struct engine **out);
void engine_release(struct engine *engine);

#endif
