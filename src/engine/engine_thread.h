/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of an engine, which runs what nobody waits for. */
#ifndef TUTTI_ENGINE_ENGINE_THREAD_H
#define TUTTI_ENGINE_ENGINE_THREAD_H

#include "engine/engine.h"

/* What the thread runs, until engine->stop. */
void *engine_thread_main(void *engine);
/* A waiting caller runs what nobody else waits for: its other communicators, for one. */
void engine_assist(struct engine *engine);

#endif
