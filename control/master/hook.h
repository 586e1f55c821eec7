/* SPDX-License-Identifier: Apache-2.0 */
/* What is done about a verdict: a command or a web hook, one after another in a thread of its own, so that none holds
 * up the master. */
#ifndef TUTTI_MASTER_HOOK_H
#define TUTTI_MASTER_HOOK_H

#include "master/ledger.h"

#define HOOK_QUEUE   64 /* verdicts that wait for the one before */
#define HOOK_SECONDS 60 /* for so long a command may run */
#define HOOK_OUTCOME 160

struct hook_options {
    const char *command; /* for sh -c; the verdict is in TUTTI_VERDICT_* and, as JSON, on standard input */
    const char *url;     /* gets the JSON by POST */
    bool act;            /* else only what would be done is said */
    void *context;
    void (*outcome)(void *context, uint64_t number, int64_t row, const char *outcome); /* from the thread */
};

struct hook;

/* NULL after error_note. */
struct hook *hook_open(const struct hook_options *options);
/* Ends a command that runs; what waits is dropped. */
void hook_close(struct hook *hook);
void hook_push(struct hook *hook, const struct verdict *verdict);

#endif
