/* SPDX-License-Identifier: Apache-2.0 */
/* How long calls take, by the model of schedule/cost.h: a rough number, made of no measurement of this machine. */
#ifndef TUTTI_ENGINE_ESTIMATE_H
#define TUTTI_ENGINE_ESTIMATE_H

#include "engine/team.h"

/* Seconds. `devices`: the ranks' memory is of GPUs. */
double team_estimate(const struct team *team, bool devices, const struct call *call);
double team_estimate_message(const struct team *team, bool devices, int peer, size_t bytes);

#endif
