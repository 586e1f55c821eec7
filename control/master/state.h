/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the master share. */
#ifndef TUTTI_MASTER_STATE_H
#define TUTTI_MASTER_STATE_H

#include "days/days.h"
#include "diagnosis/phrase.h"
#include "master/history.h"
#include "master/hook.h"
#include "master/job.h"
#include "master/ledger.h"
#include "master/master.h"
#include "master/news.h"
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
    } picture;               /* the same for all readers */
    struct history *history; /* NULL: none is kept */
    struct hook *hook;       /* NULL: there is none */
    struct job_look before;  /* owned by the thread that looks */
    char said[300];          /* owned by the same */
    uint64_t looks;          /* owned by the same */
    pthread_mutex_t lock;    /* protects all below */
    struct master_job job;
    struct ledger ledger;
    struct news news;
    struct past past;
    struct days days;
    uint64_t days_kept;                  /* CLOCK_MONOTONIC of the last write */
    char complaint[SERVE_SENTENCE];      /* the latest refusal, here or by an agent */
    uint64_t reports, refused, analysis; /* analysis: ns of the latest one */
};

/* CLOCK_REALTIME in ns. */
uint64_t master_day(void);
/* Seconds from `then` to `now`, both in ns; 0: `then` is later. */
uint64_t master_since(uint64_t now, uint64_t then);
bool master_silent(const struct job_host *host, uint64_t now);

/* The callbacks that serve.h wants. intake.c: */
void master_post(void *master, struct serve_request *request, const struct serve_post *post);
void master_refusal(void *master, const char *from, const char *sentence);
/* pages.c: */
char *master_page(void *master, const char *url, const char **type);
/* state.c: the JSON of /verdicts. The caller holds the lock. */
json_t *master_state(const struct master *master);
/* picture.c: the page's picture as JSON. The caller does not hold the lock, and frees the text; NULL: no memory. */
char *picture_page(struct master *master);
/* answer.c: JSON about the job as it is now, by `write`. The caller does not hold the lock, and frees the text; NULL:
 * no memory. */
typedef void answer_writer(FILE *out, const struct job_look *look, const void *what);
char *answer_now(struct master *master, answer_writer *write, const void *what);
/* A string as a value. */
void answer_text(FILE *out, const char *text);
/* calls.c: in the same way, the calls of this communicator. */
char *calls_page(struct master *master, uint64_t comm);
/* lanes.c: in the same way, the lanes of a process. */
char *lanes_page(struct master *master, const char *host, uint32_t pid);
/* network.c: in the same way, but as text: where the time of all ranks went. */
char *network_page(struct master *master);

#endif
