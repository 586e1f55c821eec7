/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who speaks: which hosts an address has named, how often it tells of each, and what of it was refused. One that
 * floods, or invents hosts, is bounded and named; the others go on. The time is an argument. For one thread.
 */
#ifndef TUTTI_SERVE_SOURCES_H
#define TUTTI_SERVE_SOURCES_H

#include "serve/serve.h"

#include <stdint.h>

#define SOURCES_HOSTS    8192u /* of all addresses */
#define SOURCES_FROM_ONE 1024u /* of one address */
#define SOURCES_RATE     20u   /* reports of a host in a second */
#define SOURCES_BURST    40u   /* at once, after some silence */

struct sources;

/* `program` is how the one that refuses is called. NULL: no memory. */
struct sources *sources_open(const char *program);
void sources_close(struct sources *sources);
/* May this address tell of this host now? 0, or the HTTP status to refuse it with, and why. */
unsigned sources_admit(struct sources *sources, const char *from, const char *host, uint64_t now,
                       char sentence[SERVE_SENTENCE]);
/* Says so on standard error: once a minute of an address, once a second in all. */
void sources_refused(struct sources *sources, const char *from, const char *sentence, uint64_t now);
/* Says what an agent complains of, as often, and once: an agent repeats it in each bundle. */
void sources_heard(struct sources *sources, const char *from, const char *complaint, uint64_t now);
/* The latest thing said; empty: nothing so far. */
const char *sources_complaint(const struct sources *sources);

#endif
