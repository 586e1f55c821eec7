/* SPDX-License-Identifier: Apache-2.0 */
/* The path master: the state, its file, and who asks. */
#ifndef TUTTI_PATHMASTER_STATE_H
#define TUTTI_PATHMASTER_STATE_H

#include "pathmaster/catalogue.h"
#include "pathmaster/pathmaster.h"
#include "pathmaster/store.h"
#include "serve/sources.h"

#include <pthread.h>

struct pathmaster {
    const struct pathmaster_options *options;
    struct fabric fabric;
    struct paths paths;
    struct fabric_names names;
    struct tenants tenants;
    struct tenant_count {
        int32_t lanes, owners;
    } * of_tenant;
    pthread_mutex_t lock;
    struct allot allot;
    struct catalogue catalogue;
    uint64_t looked; /* for faults, by probes */
    struct store *store;
    struct server *server;
    struct sources *sources;
    uint64_t told;    /* the latest wave whose time has come */
    uint64_t changed; /* when a lane came or went, or a link changed */
    bool fault;       /* a link has changed: its lanes do not wait */
    bool broken;      /* the file has failed, and what it holds could not be read again */
    bool leads;       /* of the masters that share a store; one that has its own leads always */
    uint64_t asked, given, moved, refused;
    char said[512];
};

/* Notes an event in the file, and applies it. */
tutti_result_t pathmaster_event(struct pathmaster *master, const struct allot_event *event);
/* The state from the file; *dropped as of store_load(). */
tutti_result_t pathmaster_read(struct pathmaster *master, int32_t *dropped);
/* The file has failed: the state becomes what is in it. */
void pathmaster_again(struct pathmaster *master);

void pathmaster_complain(struct pathmaster *master);
/* Links have changed: a plan is made at once. */
void pathmaster_hurry(struct pathmaster *master);

/* answer.c; called by the server's thread */
void pathmaster_post(void *context, struct serve_request *request, const struct serve_post *post);
void pathmaster_refusal(void *context, const char *from, const char *sentence);

/* shown.c: the catalogue of paths */
void pathmaster_show(const struct pathmaster *master, bool json, struct text *out);

/* page.c */
char *pathmaster_page(void *context, const char *url, const char **type);

#endif
