/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tables of all versions call. A connection of NCCL's, which goes one way, is a communicator of two ranks:
 * rank 0 receives, rank 1 sends. docs/operate/nccl-net.md.
 *
 * Threads: any, for every call; a connection has a lock of its own. No call waits for the peer, with one exception. A
 * close of a connection with requests under way may last until the peer has heard of it, half a second at most.
 */
#ifndef TUTTI_NCCL_NET_NET_H
#define TUTTI_NCCL_NET_NET_H

#include "nccl-net/abi.h"
#include "tutti/tutti.h"

#include <stdbool.h>

#define NET_RECEIVER   0
#define NET_SENDER     1
#define NET_MOST_BYTES ((size_t)1 << 30) /* of one send: sizes are told as int */
#define NET_GROUPED    8                 /* payloads that one receive takes, at most */
#define NET_DEVICES    16

struct connection;
struct net_listener;
struct net_request;

/* ---- device.c: where adapters are, and how fast. Any connection goes by all lanes ---- */

struct net_device {
    char name[32];
    char *pci_path; /* NULL: none */
};

struct net_devices {
    int count; /* at least 1 */
    int speed; /* Mbit/s of each */
    struct net_device device[NET_DEVICES];
};

/* The fastest network interfaces of those below `folder` (/sys/class/net) that are adapters and up, by name. Without
 * any: one device, which has no place. */
void devices_look(const char *folder, struct net_devices *out);
void devices_free(struct net_devices *devices);

/* ---- meet.c: connections are made without waiting ---- */

/* May connections be made here? False: the log says why not. */
bool meet_possible(void);
enum net_result meet_listen(unsigned char *handle, struct net_listener **out);
/* *out is NULL while the peer is not there: to be called again, for a connect with the same handle. */
enum net_result meet_accept(struct net_listener *listener, struct connection **out);
enum net_result meet_connect(const void *context, const unsigned char *handle, struct connection **out);
void meet_close(struct net_listener *listener);
/* Gives up what the context still connects. */
void meet_give_up(const void *context);

/* ---- connection.c ---- */

/* Takes the communicator. NULL: no memory. */
struct connection *connection_open(tutti_comm_t comm, int rank);
void connection_close(struct connection *connection);
/* *out is NULL if it cannot be taken now. n: 1 of a send, NET_GROUPED or fewer of a receive. */
enum net_result connection_post(struct connection *connection, int rank, int n, void *const *data, const size_t *sizes,
                                const int *tags, struct net_request **out);
/* sizes: of what went or came, one for each payload; NULL: of no interest. */
enum net_result connection_test(struct net_request *request, int *done, int *sizes);
enum net_result connection_register(struct connection *connection, void *data, size_t size, void **memory);
enum net_result connection_deregister(struct connection *connection, void *memory);

/* ---- log.c: by NCCL's logger ---- */

void log_open(net_log_fn *logger);
__attribute__((format(printf, 4, 5))) void log_line(enum net_level level, const char *file, int line,
                                                    const char *format, ...);
/* As NCCL names a result of ours; a failure is logged, with the sentence that tutti has for it. comm: NULL for none. */
enum net_result log_result(tutti_result_t result, tutti_comm_t comm, const char *what);

#define LOG_WARN(...) log_line(NET_LOG_WARN, __FILE__, __LINE__, __VA_ARGS__)
#define LOG_INFO(...) log_line(NET_LOG_INFO, __FILE__, __LINE__, __VA_ARGS__)

#endif
