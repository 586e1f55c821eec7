/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The senders: which hosts an address has named, how often it reports each, and what was refused. A sender that floods,
 * or invents hosts, is bounded and named; the others go on. The time is an argument. For one thread.
 */
#ifndef TUTTI_SERVE_SOURCES_H
#define TUTTI_SERVE_SOURCES_H

#include "serve/serve.h"

#include <stdint.h>

#define SOURCES_HOSTS    65536u /* hosts of all addresses */
#define SOURCES_FROM_ONE 1024u  /* hosts of one address */
#define SOURCES_RATE     20u    /* reports of a host in a second */
#define SOURCES_BURST    40u    /* reports at once, after some silence */

struct sources;

/* `program`: the name of the one that refuses. NULL: no memory. */
struct sources *sources_open(const char *program);
void sources_close(struct sources *sources);
/* May this address report this host now? 0, or the HTTP status of the refusal, and its reason. */
unsigned sources_admit(struct sources *sources, const char *from, const char *host, uint64_t now,
                       char sentence[SERVE_SENTENCE]);
/* Says a refusal on standard error: once a minute for an address, once a second in all. */
void sources_refused(struct sources *sources, const char *from, const char *sentence, uint64_t now);
/* Says an agent's complaint, within the same limits, and once: an agent repeats it in each bundle. */
void sources_heard(struct sources *sources, const char *from, const char *complaint, uint64_t now);
/* The latest sentence; empty: none so far. */
const char *sources_complaint(const struct sources *sources);

#endif
