/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP side of the master: who may speak, how much, and to whom it goes. One thread answers all. */
#ifndef TUTTI_MASTER_SERVE_H
#define TUTTI_MASTER_SERVE_H

#include "report/token.h"

#include "base/net.h"

#include <stddef.h>

#define SERVE_SENTENCE 256

struct serve_options {
    struct net_address *at; /* becomes the address bound */
    char *certificate, *key; /* PEM; NULL: no TLS */
    const struct token *token;
    void *context;
    /* A report has come. HTTP status, and why not 200. */
    unsigned (*on_report)(void *context, const void *bytes, size_t size, char sentence[SERVE_SENTENCE]);
    /* What is to be read at `url`, made by malloc, and its type. NULL: nothing, or it cannot be made; *type tells, by NULL. */
    char *(*on_page)(void *context, const char *url, const char **type);
    /* Somebody was refused. */
    void (*on_refusal)(void *context);
};

struct server;

/* NULL after error_note. `options` stay the caller's until the end. */
struct server *serve_open(const struct serve_options *options);
void serve_close(struct server *server);

#endif
