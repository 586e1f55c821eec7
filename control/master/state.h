/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the master share. */
#ifndef TUTTI_MASTER_STATE_H
#define TUTTI_MASTER_STATE_H

#include "diagnosis/phrase.h"
#include "master/history.h"
#include "master/hook.h"
#include "master/job.h"
#include "master/ledger.h"
#include "master/master.h"
#include "master/past.h"
#include "serve/serve.h"
#include "serve/sources.h"

#include <pthread.h>

struct master {
    const struct master_options *options;
    struct server *server;
    struct sources *sources; /* of the server's thread */
    struct picture {
        char *text; /* NULL: none was made so far */
        uint64_t made;
    } picture;               /* of the same, for all who look */
    struct history *history; /* NULL: none is kept */
    struct hook *hook;       /* NULL: there is none */
    struct job_look before;  /* of the thread that looks */
    char said[300];          /* of the same */
    pthread_mutex_t lock;    /* of all below */
    struct master_job job;
    struct ledger ledger;
    struct past past;
    char complaint[SERVE_SENTENCE];      /* the latest refusal, here or by an agent */
    uint64_t reports, refused, analysis; /* analysis: ns that the latest took */
};

/* CLOCK_REALTIME in ns. */
uint64_t master_day(void);
/* From `then` to `now`, both in ns; 0: it is later. */
uint64_t master_since(uint64_t now, uint64_t then);
bool master_silent(const struct job_host *host, uint64_t now);

/* As serve.h wants them. intake.c: */
void master_post(void *master, struct serve_request *request, const struct serve_post *post);
void master_refusal(void *master, const char *from, const char *sentence);
/* pages.c: */
char *master_page(void *master, const char *url, const char **type);
/* state.c: what /verdicts shows; with the lock. */
json_t *master_state(const struct master *master);
/* picture.c: what the page draws, as JSON; without the lock. The caller's; NULL: no memory. */
char *picture_page(struct master *master);
/* answer.c: JSON of what the job looks like now, by `write`; without the lock. The caller's; NULL: no memory. */
typedef void answer_writer(FILE *out, const struct job_look *look, const void *what);
char *answer_now(struct master *master, answer_writer *write, const void *what);
/* A string as a value. */
void answer_text(FILE *out, const char *text);
/* calls.c: likewise, the calls of this communicator. */
char *calls_page(struct master *master, uint64_t comm);
/* lanes.c: likewise, of the lanes of a process. */
char *lanes_page(struct master *master, const char *host, uint32_t pid);
/* network.c: likewise, but text: where the time of all ranks went. */
char *network_page(struct master *master);

#endif
