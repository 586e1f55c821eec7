/* SPDX-License-Identifier: Apache-2.0 */
/* The masters that share a fabric: the one that leads answers, the others say that they do not. */
#ifndef TUTTI_PATHAGENT_MASTERS_H
#define TUTTI_PATHAGENT_MASTERS_H

#include "agent/agent.h"

struct masters;

/* `options->url`: URLs with commas between. As sender_open(). */
struct masters *masters_open(const struct sender_options *options, const volatile bool *stop);
void masters_close(struct masters *masters);
/* As sender_ask(), of the first that answers, beginning with the one that did last. */
bool masters_ask(struct masters *masters, const uint8_t *bytes, size_t size, const uint8_t **answer, size_t *answered);
/* The URL of the one that answered last. */
const char *masters_url(const struct masters *masters);

#endif
