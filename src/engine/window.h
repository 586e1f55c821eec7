/* SPDX-License-Identifier: Apache-2.0 */
/* Windows on host memory: made and closed by all ranks together. */
#ifndef TUTTI_ENGINE_WINDOW_H
#define TUTTI_ENGINE_WINDOW_H

#include "engine/team.h"
#include "engine/windows.h"

/* A window of this rank's, of which nothing is known of the others yet. Peers may ask for it from here on; it ends when
 * nobody puts there. window_drop_all: after windows_stop(). */
tutti_result_t window_enlist(struct team *team, uint32_t number, void *buffer, size_t size, struct tutti_window **out);
void window_drop(struct tutti_window *window);
void window_drop_all(struct team *team);

/* Collective, and they wait. mine: whether this rank can, as the caller has found out; an error has its sentence.
 * window_close: after a failure for nobody. */
tutti_result_t window_open(struct team *team, void *buffer, size_t size, tutti_result_t mine,
                           struct tutti_window **out);
tutti_result_t window_close(struct team *team, struct tutti_window *window);

/* Where this process reaches a rank's memory, NULL if it does not. */
tutti_result_t window_address(struct team *team, struct tutti_window *window, int rank, void **address, size_t *size);

#endif
