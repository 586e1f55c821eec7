/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forked children. A child has none of our threads, and locks in any state; what it inherits belongs to its parent. So
 * the child closes its copies of our sockets at once: while it held them, peers would take a dead parent for a living
 * one. And it forgets what it inherited: it may begin anew as any other process.
 */
#ifndef TUTTI_BASE_FORK_H
#define TUTTI_BASE_FORK_H

#include "base/list.h"

#include <stdint.h>

/* Changes in each child: what was made under another number belongs to an ancestor. */
extern uint32_t fork_generation __attribute__((visibility("hidden"))); /* no table of addresses on the way */

/* `reset` is called in each child, in which nothing else of ours runs: it makes locks anew and forgets what they
 * guarded. It must do nothing that is not allowed in a signal handler. Call this before the first thread, from a
 * constructor. */
void fork_reset_by(void (*reset)(void));

/* For a `reset`: empties a list whose items were the parent's. */
void fork_forget(struct list *list);

/* socket() and accept4(), both with SOCK_CLOEXEC | SOCK_NONBLOCK, whose descriptor no child has. It is closed as any
 * other. */
int fork_socket(int domain, int type);
int fork_accept(int fd);

#endif
