/* SPDX-License-Identifier: Apache-2.0 */
/* An open /dev/infiniband/rdma_cm: identifiers, and a queue of events. The program holds one end of a socket pair. It
 * is readable when an event waits; however the program closes it, the other end hears. With the lock held. */
#ifndef RDMACM_CHANNEL_H
#define RDMACM_CHANNEL_H

#include "rdmacm/watch.h"

#include <netinet/in.h> /* before the kernel's header, which declares the same */

#include <rdma/rdma_user_cm.h>
#include <stdbool.h>
#include <sys/types.h>

struct cm_id;

struct cm_channel {
    struct list node;
    int near, far, entry;
    ino_t inode;    /* of the near end: the program may have closed it, and the number be another file's */
    bool inherited; /* opened by the process that this one was forked from */
    struct list events, ids;
};

struct cm_event {
    struct list node;
    struct cm_id *id;    /* goes with it */
    struct cm_id *child; /* of a request for a connection */
    const void *of;      /* the identifier, or the group of one: goes with that, too */
    uint32_t *reported;  /* how many its owner had */
    struct rdma_ucm_event_resp answer;
};

/* A thread that asks for an event holds the socket under a number of its own, as the kernel holds a file while a call
 * is inside: a close() by another thread does not end the call, and what happens meanwhile is still the call's. */
struct cm_hold {
    struct list node;
    int fd, near; /* the thread's number, or the program's where none was free; the program's */
    ino_t inode;
};

/* Opens one; its descriptor, or -1 with errno. */
int channel_open(int flags);
/* NULL: the descriptor is none of ours. */
struct cm_channel *channel_of(int fd);
/* Without the lock. The end of the last hold ends a channel that the program has closed. */
void channel_hold(struct cm_hold *hold, int fd);
void channel_let_go(struct cm_hold *hold);
/* NULL: the descriptor was none of ours, or was closed and not held. */
struct cm_channel *channel_held(const struct cm_hold *hold);

/* Is called when the program has closed its end, before the channel goes. */
void channel_on_close(void (*ended)(struct cm_channel *channel));

/* Calls with the node of each identifier of this process. */
void channel_each_id(void (*each)(struct list *node));

/* Ends channels that the program has closed and the thread has not seen yet. Were there any? */
bool channel_reap(void);

/* 0 or ENOMEM. */
int channel_post(struct cm_channel *channel, const struct cm_event *event);
/* NULL: none waits, and the hold's descriptor is not readable. The caller frees it. */
struct cm_event *channel_take(struct cm_channel *channel, const struct cm_hold *hold);
/* Drops the events of an owner, and the request that has it as a child. `dropped`, if not NULL, is called for the child
 * of each. */
void channel_drop(struct cm_channel *channel, const void *of, void (*dropped)(struct cm_id *child));
/* Moves the events of an identifier, and calls `moved` for each. */
void channel_move(struct cm_channel *from, struct cm_channel *to, const struct cm_id *id,
                  void (*moved)(struct cm_event *event, struct cm_channel *to));

#endif
