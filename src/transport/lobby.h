/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lobby: whoever connects waits here until its greeting is complete. Guests that say nothing are shown out at a deadline,
 * there is room for a bounded number of them, and none is let in before the transport has checked the greeting.
 */
#ifndef TUTTI_TRANSPORT_LOBBY_H
#define TUTTI_TRANSPORT_LOBBY_H

#include "transport/common.h"

#define LOBBY_GREETING 320 /* longest greeting, bytes */
#define LOBBY_FDS      3   /* most descriptors that come with one */

struct lobby_guest;

struct lobby {
    struct transport *transport;
    size_t greeting; /* bytes */
    int guests;
    struct list waiting; /* oldest first */
    /* A greeting is complete. Owns fd and all fds that are >= 0. */
    void (*greeted)(struct lobby *lobby, int fd, const void *greeting, int fds[LOBBY_FDS]);
};

/* One door: a listening socket. */
struct lobby_door {
    struct poll_source source; /* fd -1: none */
    struct lobby *lobby;
    struct transport_timer reopen;
    bool shut;
};

void lobby_init(struct lobby *lobby, struct transport *transport, size_t greeting,
                void (*greeted)(struct lobby *lobby, int fd, const void *greeting, int fds[LOBBY_FDS]));
/* Takes over the listening socket `fd`, also when it fails. */
tutti_result_t lobby_open(struct lobby *lobby, struct lobby_door *door, int fd);
void lobby_close(struct lobby_door *door);
/* Shows all guests out. */
void lobby_fini(struct lobby *lobby);

/* recvmsg of bytes and at most LOBBY_FDS descriptors; surplus ones are closed. fds[i] stays -1 where none came. */
ssize_t lobby_receive(int fd, void *bytes, size_t size, int fds[LOBBY_FDS]);

#endif
