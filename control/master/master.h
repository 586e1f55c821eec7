/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The master of a job takes the reports of all agents. It looks at all processes once a second, and at once on an
 * alarm. It says, serves, keeps and acts on what the rules find.
 *
 *   agents --HTTPS--> job --look--> rules --findings--> ledger --verdicts--> standard output, history, hook
 *                                                          '---- pages: /, /page, /verdicts, /history, /metrics
 */
#ifndef TUTTI_MASTER_MASTER_H
#define TUTTI_MASTER_MASTER_H

#include "master/hook.h"
#include "report/token.h"
#include "serve/serve.h"

#define MASTER_UPLOADS (256u << 20) /* bytes of all reports that are coming in */

struct master_options {
    struct serve_door door;
    struct token token;
    uint64_t stuck;            /* ns */
    const char *history, *job; /* history: file or URL, NULL: none; job: whose it is there */
    const char *days;          /* file of what hosts went through, by day; NULL: none */
    struct hook_options hook;  /* without outcome and context */
    enum confidence sure;      /* enough for the hook */
};

/* Until SIGINT or SIGTERM. False after a sentence on standard error. */
bool master_run(const struct master_options *options);

#endif
