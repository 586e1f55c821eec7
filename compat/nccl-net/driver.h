/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives the plugin as NCCL does: loads it by dlopen(), finds the table of a version by its name, connects by calling
 * again and again in one thread, and sends and receives in another. Each test has two ends, which are processes of
 * their own.
 */
#ifndef TUTTI_NCCL_NET_DRIVER_H
#define TUTTI_NCCL_NET_DRIVER_H

#include "nccl-net/abi.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#define DRIVER_PATIENCE 120 /* seconds, after which an end has hung */
#define DRIVER_TAG      3
#define DRIVER_GROUPED  8 /* receives of one call, at most */

/* In an end, which is no place for the test library's assertions. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: end %d: not so: %s\n", __FILE__, __LINE__, driver_side, #condition);               \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)
#define CHECK_CALL(call) CHECK((call) == NET_SUCCESS)

extern int driver_side; /* of this process: 0 or 1 */
extern int driver_runs; /* tests that have been run: a pattern may fit none */

/* The calls of one version, as newer versions have them. */
struct net {
    int version;
    const struct net_table_8 *v8; /* of these, one is not NULL */
    const struct net_table_9 *v9;
    const struct net_table_10 *v10;
    const struct net_table_11 *v11;
    const struct net_memory_calls *memory;
    const struct net_end_calls *end;
    void *context; /* of version 11 */
    void *library;
};

struct end {
    struct net net;
    int socket; /* to the other end: NCCL's own way to carry handles */
    int side;
};

typedef void end_fn(struct end *end);

/* Runs both ends of a test; true: both are through, and found nothing wrong. */
bool driver_pair(int version, end_fn *first, end_fn *second);
/* One end alone. */
bool driver_alone(int version, end_fn *only);

/* Loads; init, devices and properties follow, as in NCCL. */
void net_load(struct net *net, int version);
enum net_result net_init(struct net *net);
/* How many devices there are. */
int net_check_devices(struct net *net);
void net_unload(struct net *net);
unsigned net_warnings(void);
/* One of our own calls, from the library that the plugin has loaded. */
void *net_symbol(const char *name);

enum net_result net_listen(const struct net *net, int device, void *handle, void **listener);
enum net_result net_connect(const struct net *net, int device, void *handle, void **connection);
enum net_result net_send(const struct net *net, void *connection, void *data, size_t size, void *memory,
                         void **request);
enum net_result net_receive(const struct net *net, void *connection, void *data, size_t size, void *memory,
                            void **request);
/* The two above have DRIVER_TAG. */
enum net_result net_send_as(const struct net *net, void *connection, int tag, void *data, size_t size, void *memory,
                            void **request);
/* n in one call; tags are changed. */
enum net_result net_receive_grouped(const struct net *net, void *connection, int n, void **data, size_t *sizes,
                                    int *tags, void **request);

/* `size` bytes to, and from, the other end. */
void end_tell(const struct end *end, const void *data, size_t size);
void end_hear(const struct end *end, void *data, size_t size);
/* Both are here. */
void end_meet(const struct end *end);
/* A connection that this end sends on, and one that it receives on; either may be NULL. */
void end_connect(const struct end *end, void **sends, void **receives);
/* Tests until it is over, or failed; *size is what came. */
enum net_result end_wait(const struct end *end, void *request, int *size);

/* Payload `number` of a flow. */
void payload_fill(unsigned char *data, size_t size, uint64_t seed);
bool payload_is(const unsigned char *data, size_t size, uint64_t seed);

#endif
