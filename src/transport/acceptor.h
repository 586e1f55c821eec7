/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An acceptor: a connection waits here until its greeting is complete. Connections that say nothing are shown out at a
 * deadline, and there is room for a bounded number of them. None is let in before the transport has checked the
 * greeting.
 */
#ifndef TUTTI_TRANSPORT_ACCEPTOR_H
#define TUTTI_TRANSPORT_ACCEPTOR_H

#include "transport/common.h"

#define ACCEPTOR_GREETING 448 /* longest greeting, bytes */
#define ACCEPTOR_FDS      3   /* most descriptors that come with one */

struct acceptor_pending;

struct acceptor {
    struct transport *transport;
    size_t greeting; /* bytes */
    int pending;
    struct list waiting; /* oldest first */
    /* A greeting is complete. Owns fd and all fds that are >= 0. */
    void (*greeted)(struct acceptor *acceptor, int fd, const void *greeting, int fds[ACCEPTOR_FDS]);
};

/* One listening socket. */
struct acceptor_socket {
    struct poll_source source; /* fd -1: none */
    struct acceptor *acceptor;
    struct transport_timer reopen;
    bool shut;
    int interface; /* index of the one that it listens at; 0: not known */
};

void acceptor_init(struct acceptor *acceptor, struct transport *transport, size_t greeting,
                   void (*greeted)(struct acceptor *acceptor, int fd, const void *greeting, int fds[ACCEPTOR_FDS]));
/* Takes over the listening socket `fd`, also when it fails. */
tutti_result_t acceptor_open(struct acceptor *acceptor, struct acceptor_socket *listening, int fd);
void acceptor_close(struct acceptor_socket *listening);
/* Shows all connections out. */
void acceptor_fini(struct acceptor *acceptor);

/* recvmsg of bytes and at most ACCEPTOR_FDS descriptors; surplus ones are closed. fds[i] stays -1 where none came. */
ssize_t acceptor_receive(int fd, void *bytes, size_t size, int fds[ACCEPTOR_FDS]);

#endif
