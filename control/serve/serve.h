/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP side of servers that take reports: it knows the allowed senders and sizes, and the receiver. One thread
 * answers all. */
#ifndef TUTTI_SERVE_SERVE_H
#define TUTTI_SERVE_SERVE_H

#include "report/token.h"

#include "base/net.h"

#include <stdbool.h>
#include <stddef.h>

#define SERVE_SENTENCE 256

/* The address, and the proofs of identity. */
struct serve_door {
    struct net_address at;
    char *certificate, *key; /* PEM; NULL: no TLS */
    char *client_ca;         /* PEM: a client must show a certificate made by one of these; NULL: it needs none */
};

/* A request that waits for its answer. */
struct serve_request;

struct serve_post {
    const char *from;  /* the address of the sender, without a port */
    bool bundle;       /* else a report */
    unsigned token;    /* which of the options' it came with */
    const void *bytes; /* stay until the answer, as `from` does */
    size_t size;
};

struct serve_options {
    struct serve_door *door; /* its port becomes the one that was bound */
    const struct token *token;
    unsigned tokens;  /* in a row at `token`; 0: one */
    const char *post; /* the one page that takes posts, such as "/paths"; NULL: /report and /bundle */
    size_t most;      /* bytes of a post there */
    size_t uploads;   /* most bytes that are coming in, or wait for their answer */
    void *context;
    /* Called by the one thread. serve_answer() must follow once for each, at once or later. */
    void (*on_post)(void *context, struct serve_request *request, const struct serve_post *post);
    /* The text of the page `url`, made by malloc, and its type. NULL: nothing, or it cannot be made; *type tells, by
     * NULL. */
    char *(*on_page)(void *context, const char *url, const char **type);
    const char *pages; /* the pages, for a client that asks for an unknown one */
    /* Called by the one thread when a sender was refused. */
    void (*on_refusal)(void *context, const char *from, const char *sentence);
};

struct server;

/* NULL after error_note. The caller keeps `options` until the end. */
struct server *serve_open(const struct serve_options *options);
/* The caller must have answered all requests that on_post got. */
void serve_close(struct server *server);

/* Called by any thread. `body` is copied; `retry`: seconds after which a retry may work; 0: unsaid. */
void serve_answer(struct serve_request *request, unsigned status, const void *body, size_t size, unsigned retry);
/* The same with a line of text. */
void serve_say(struct serve_request *request, unsigned status, const char *sentence, unsigned retry);

#endif
