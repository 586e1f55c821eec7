/* SPDX-License-Identifier: Apache-2.0 */
/* Acts on a verdict by a command or a web hook. A thread runs them one after another, so that none holds up the
 * master. */
#ifndef TUTTI_MASTER_HOOK_H
#define TUTTI_MASTER_HOOK_H

#include "master/ledger.h"

#define HOOK_QUEUE   64 /* verdicts that wait for the one before */
#define HOOK_SECONDS 60 /* the time that a command may run */
#define HOOK_OUTCOME 160

struct hook_options {
    const char *command; /* a line for sh -c; the verdict is in TUTTI_VERDICT_* and, as JSON, on standard input */
    const char *url;     /* the URL that gets the JSON by POST */
    bool act;            /* else the hook only says what it would do */
    void *context;
    void (*outcome)(void *context, uint64_t number, int64_t row, const char *outcome); /* called by the thread */
};

struct hook;

/* NULL after error_note. */
struct hook *hook_open(const struct hook_options *options);
/* Ends a running command, and drops what waits. */
void hook_close(struct hook *hook);
void hook_push(struct hook *hook, const struct verdict *verdict);

#endif
