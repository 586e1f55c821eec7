/* SPDX-License-Identifier: Apache-2.0 */
/* The path master of a fabric: agents of hosts ask it for source ports. */
#ifndef TUTTI_PATHMASTER_PATHMASTER_H
#define TUTTI_PATHMASTER_PATHMASTER_H

#include "serve/serve.h"

#include <stdbool.h>
#include <stdint.h>

struct pathmaster_options {
    const char *fabric, *tenants, *state; /* files */
    struct serve_door door;
    uint64_t lease; /* nanoseconds without a word after which an owner has no lanes any more */
};

/* Runs until SIGINT or SIGTERM. Says on standard output and error what changes. False: it cannot begin, or go on. */
bool pathmaster_run(const struct pathmaster_options *options);

#endif
