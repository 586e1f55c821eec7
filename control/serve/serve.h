/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP side of those that take reports: who may speak, how much, and to whom it goes. One thread answers all. */
#ifndef TUTTI_SERVE_SERVE_H
#define TUTTI_SERVE_SERVE_H

#include "report/token.h"

#include "base/net.h"

#include <stdbool.h>
#include <stddef.h>

#define SERVE_SENTENCE 256

/* Where, and how it is known who is who. */
struct serve_door {
    struct net_address at;
    char *certificate, *key; /* PEM; NULL: no TLS */
    char *client_ca;         /* PEM: who comes must show a certificate made by one of these; NULL: none is asked for */
};

/* Something that waits for its answer. */
struct serve_request;

struct serve_post {
    const char *from;  /* the address of the one that sends it, without a port */
    bool bundle;       /* else a report */
    const void *bytes; /* stay until it is answered, as `from` does */
    size_t size;
};

struct serve_options {
    struct serve_door *door; /* its port becomes the one bound */
    const struct token *token;
    size_t uploads; /* bytes of all that is coming in, or waits for its answer, at most */
    void *context;
    /* Called by the one thread. serve_answer() must follow once for each, at once or later. */
    void (*on_post)(void *context, struct serve_request *request, const struct serve_post *post);
    /* What is to be read at `url`, made by malloc, and its type. NULL: nothing, or it cannot be made; *type tells, by
     * NULL. */
    char *(*on_page)(void *context, const char *url, const char **type);
    const char *pages; /* which there are, for those who ask for another */
    /* Somebody was refused, by the one thread. */
    void (*on_refusal)(void *context, const char *from, const char *sentence);
};

struct server;

/* NULL after error_note. `options` stay the caller's until the end. */
struct server *serve_open(const struct serve_options *options);
/* All that was given to on_post must have been answered. */
void serve_close(struct server *server);

/* From any thread. `body` is copied; `retry`: in so many seconds it may work; 0: unsaid. */
void serve_answer(struct serve_request *request, unsigned status, const void *body, size_t size, unsigned retry);
/* The same with a line of text. */
void serve_say(struct serve_request *request, unsigned status, const char *sentence, unsigned retry);

#endif
