/* SPDX-License-Identifier: Apache-2.0 */
/* A server of PostgreSQL that may be away, or stand still: each call takes some seconds at most. For one thread.
 * Private to the history. */
#ifndef TUTTI_MASTER_POSTGRES_H
#define TUTTI_MASTER_POSTGRES_H

#include <stdint.h>

struct postgres;

/* REFUSED: the server is well, and will never take this write. AWAY: perhaps later; nobody knows whether it was
 * done. */
enum postgres_outcome { POSTGRES_DONE, POSTGRES_REFUSED, POSTGRES_AWAY };

/* Called with each new connection, before the first question. */
typedef enum postgres_outcome (*postgres_greeting)(void *context, struct postgres *server);

/* Does not connect yet. NULL after error_note: the URL is wrong. */
struct postgres *postgres_open(const char *url, postgres_greeting greeting, void *context);
void postgres_close(struct postgres *server);
/* Asks, and connects before if there is no connection. on_row: gets a row of texts, NULL where the database has NULL;
 * may be NULL itself. */
enum postgres_outcome postgres_do(struct postgres *server, const char *text, const char *const *values, int count,
                                  void (*on_row)(void *context, const char *const *values), void *context);
/* The server's name for people, without a password: "HOST/DATABASE". */
const char *postgres_name(const struct postgres *server);
/* Why the latest question failed, in one line. */
const char *postgres_why(const struct postgres *server);
/* Called by any thread: nothing is waited for from then on. */
void postgres_give_up_at(struct postgres *server, uint64_t deadline);

#endif
