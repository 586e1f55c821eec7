/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of one connection. A communicator runs one operation after another, so what is posted while one runs goes
 * together as the next: a group of a head, which says how many payloads follow, how long each is and its tag, and of
 * these. A receiver asks for a head only when it has buffers, so that a connection without requests has nothing under
 * way and can be closed in peace.
 *
 * Short payloads lie in the head itself, so that a short send is one message. Each head says how many bytes of payloads
 * the next one has room for: as many as its own group has. So a connection whose sends stay short, or stay long, has
 * the right heads from its second group on.
 *
 * A receive takes several payloads, and each goes to the first buffer that waits for its tag (requests.c). One whose
 * buffer is not there yet is kept, if others wait: the payload behind it may be what the receiver needs first.
 */
#include "nccl-net/requests.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_MARK  0x74757433 /* tells the layout of a head, too */
#define LEAST_ROOM 64
#define MOST_ROOM  4096 /* a head and this is a message that transports carry at once */

_Static_assert(NET_MOST_BYTES <= UINT32_MAX, "a head tells each size");

struct head {
    uint32_t mark, count;
    uint32_t room; /* of the next head: 0, or a power of 2 */
    struct {
        uint32_t size;
        int32_t tag;
    } payload[NET_REQUESTS];
    unsigned char bytes[MOST_ROOM]; /* of payloads; what a head has room for is sent */
};

struct connection {
    pthread_mutex_t lock;
    tutti_comm_t comm;
    tutti_stream_t stream;
    int rank;
    enum net_result failed;
    struct net_requests requests;
    struct net_part *going[NET_REQUESTS]; /* of the operation that runs; a sender's also those in the head */
    uint32_t goes;
    bool running, asks; /* an operation is; it is a head that the receiver asks for */
    struct head head;
    uint32_t room, filled; /* of this head, and bytes there that have a payload */
    uint32_t told, taken;  /* of the receiver's head: payloads that it tells of, and those that have been asked for */
};

struct connection *connection_open(tutti_comm_t comm, int rank)
{
    struct connection *connection = calloc(1, sizeof *connection);
    if (!connection ||
        log_result(tutti_stream_create(&connection->stream), comm, "opening a connection") != NET_SUCCESS) {
        free(connection);
        return NULL;
    }
    pthread_mutex_init(&connection->lock, NULL);
    connection->comm = comm;
    connection->rank = rank;
    return connection;
}

/* Ends the communicator, so that the peer hears of it. */
static void fail(struct connection *connection, enum net_result result)
{
    connection->failed = result;
    connection->running = false;
    tutti_comm_abort(connection->comm);
}

void connection_close(struct connection *connection)
{
    if (connection->running || connection->requests.unfinished)
        tutti_comm_abort(connection->comm);
    tutti_stream_destroy(connection->stream);
    tutti_comm_destroy(connection->comm);
    requests_free(&connection->requests);
    pthread_mutex_destroy(&connection->lock);
    free(connection);
}

/* ---- Operations ---- */

/* One message of the group that is open. */
static void add(struct connection *connection, void *data, size_t size)
{
    tutti_comm_t comm = connection->comm;
    tutti_stream_t stream = connection->stream;
    if (size && connection->rank == NET_SENDER)
        tutti_send(data, size, TUTTI_UINT8, NET_RECEIVER, comm, stream);
    else if (size)
        tutti_recv(data, size, TUTTI_UINT8, NET_SENDER, comm, stream);
}

/* Issues the group, which fails if any of its messages did. */
static void run(struct connection *connection)
{
    enum net_result result = log_result(tutti_group_end(), connection->comm, "posting");
    connection->running = true;
    if (result != NET_SUCCESS)
        fail(connection, result);
}

static void add_head(struct connection *connection)
{
    add(connection, &connection->head, offsetof(struct head, bytes) + connection->room);
}

/* Where the group's next payload lies in the head. NULL: it does not fit, and goes by itself. */
static void *place_in_head(struct connection *connection, uint64_t size)
{
    if (size > connection->room - connection->filled)
        return NULL;
    connection->filled += (uint32_t)size;
    return connection->head.bytes + connection->filled - size;
}

/* What a group like this one needs. */
static uint32_t room_for(uint64_t bytes)
{
    uint32_t room = LEAST_ROOM;
    while (room < bytes && room < MOST_ROOM)
        room *= 2;
    return room < bytes ? 0 : room;
}

static void send_all(struct connection *connection)
{
    struct head *head = &connection->head;
    struct net_part *part;
    uint64_t bytes = 0;
    head->mark = HEAD_MARK;
    head->count = connection->filled = 0;
    memset(head->payload, 0, sizeof head->payload);
    tutti_group_start();
    add_head(connection);
    while (head->count < NET_REQUESTS && (part = requests_next(&connection->requests))) {
        void *place = place_in_head(connection, part->size);
        if (place && part->size)
            memcpy(place, part->data, part->size);
        else
            add(connection, part->data, part->size);
        bytes += part->size;
        head->payload[head->count].size = (uint32_t)part->size;
        head->payload[head->count].tag = part->tag;
        connection->going[head->count++] = part;
    }
    connection->goes = head->count;
    connection->room = head->room = room_for(bytes);
    run(connection);
}

static void ask_for_head(struct connection *connection)
{
    connection->asks = true;
    connection->room = connection->head.room;
    tutti_group_start();
    add_head(connection);
    run(connection);
}

/* Where the head's next payload goes. NULL: nowhere. */
static struct net_part *take(struct connection *connection)
{
    uint64_t size = connection->head.payload[connection->taken].size;
    struct net_part *part = NULL;
    enum net_result result =
        requests_match(&connection->requests, connection->head.payload[connection->taken].tag, size, &part);
    connection->taken += part != NULL;
    if (result != NET_SUCCESS)
        fail(connection, result);
    return part;
}

/* Asks for as many payloads as there are buffers for, and takes those that the head has. */
static void receive_some(struct connection *connection)
{
    struct net_part *part = NULL;
    connection->goes = 0;
    while (connection->taken < connection->told && requests_wait(&connection->requests) && (part = take(connection))) {
        const void *place = place_in_head(connection, part->size);
        if (place && part->size)
            memcpy(part->data, place, part->size);
        if (place)
            requests_came(&connection->requests, part);
        else
            connection->going[connection->goes++] = part;
    }
    if (connection->failed != NET_SUCCESS || !connection->goes)
        return;
    tutti_group_start();
    for (uint32_t i = 0; i < connection->goes; i++)
        add(connection, connection->going[i]->data, connection->going[i]->size);
    run(connection);
}

static void read_head(struct connection *connection)
{
    const struct head *head = &connection->head;
    if (head->mark != HEAD_MARK || !head->count || head->count > NET_REQUESTS || head->room > MOST_ROOM ||
        head->room & (head->room - 1)) {
        LOG_WARN("the sender says what no sender of ours does (mark %x, %u payloads, room for %u bytes)", head->mark,
                 head->count, head->room);
        fail(connection, NET_REMOTE_ERROR);
        return;
    }
    connection->told = head->count;
    connection->taken = connection->filled = 0;
}

/* The operation that ran is over. */
static void settle(struct connection *connection)
{
    bool asked = connection->asks;
    connection->running = connection->asks = false;
    enum net_result result = log_result(tutti_stream_synchronize(connection->stream), connection->comm,
                                        connection->rank == NET_SENDER ? "sending" : "receiving");
    if (result != NET_SUCCESS)
        fail(connection, result);
    else if (asked)
        read_head(connection);
    else
        for (uint32_t i = 0; i < connection->goes; i++)
            requests_came(&connection->requests, connection->going[i]);
}

static void start_next(struct connection *connection)
{
    if (connection->rank == NET_SENDER)
        send_all(connection);
    else if (connection->taken < connection->told)
        receive_some(connection);
    else
        ask_for_head(connection);
}

/* What was kept goes to the receives that have come for it, also while more is on its way. */
static void hand_out(struct connection *connection)
{
    enum net_result result = requests_hand_out(&connection->requests);
    if (result != NET_SUCCESS)
        fail(connection, result);
}

/* Goes as far as it goes without waiting. */
static void progress(struct connection *connection)
{
    while (connection->failed == NET_SUCCESS) {
        hand_out(connection);
        if (connection->failed != NET_SUCCESS || (!connection->running && !requests_wait(&connection->requests)))
            return;
        if (!connection->running)
            start_next(connection);
        else if (tutti_stream_query(connection->stream) == TUTTI_IN_PROGRESS)
            return;
        else
            settle(connection);
    }
}

/* ---- Requests ---- */

static bool may_post(const struct connection *connection, int rank, int n, const size_t *sizes)
{
    bool fits = n >= 1 && n <= (rank == NET_SENDER ? 1 : NET_GROUPED);
    if (connection->rank != rank || !fits) {
        LOG_WARN("rank %d of a connection is asked to %s %d payloads", connection->rank,
                 rank == NET_SENDER ? "send" : "receive", n);
        return false;
    }
    for (int i = 0; i < n; i++)
        if (sizes[i] > NET_MOST_BYTES) {
            LOG_WARN("rank %d of a connection is asked to %s %zu bytes", connection->rank,
                     rank == NET_SENDER ? "send" : "receive", sizes[i]);
            return false;
        }
    return true;
}

enum net_result connection_post(struct connection *connection, int rank, int n, void *const *data, const size_t *sizes,
                                const int *tags, struct net_request **out)
{
    *out = NULL;
    if (!may_post(connection, rank, n, sizes))
        return NET_INTERNAL_ERROR;
    pthread_mutex_lock(&connection->lock);
    if (connection->failed == NET_SUCCESS && (*out = requests_add(&connection->requests, n, data, sizes, tags))) {
        (*out)->connection = connection;
        progress(connection);
    }
    enum net_result result = connection->failed;
    if (result != NET_SUCCESS)
        *out = NULL;
    pthread_mutex_unlock(&connection->lock);
    return result;
}

enum net_result connection_test(struct net_request *request, int *done, int *sizes)
{
    struct connection *connection = request->connection;
    enum net_result result = NET_SUCCESS;
    pthread_mutex_lock(&connection->lock);
    if (request->left)
        progress(connection);
    *done = !request->left;
    if (*done) {
        for (int i = 0; sizes && i < request->count; i++)
            sizes[i] = (int)request->part[i].size;
        request->used = false;
    } else {
        result = connection->failed;
    }
    pthread_mutex_unlock(&connection->lock);
    return result;
}

/* ---- Memory ---- */

enum net_result connection_register(struct connection *connection, void *data, size_t size, void **memory)
{
    *memory = NULL;
    if (!size)
        return NET_SUCCESS;
    return log_result(tutti_comm_register(connection->comm, data, size, memory), connection->comm,
                      "registering memory");
}

enum net_result connection_deregister(struct connection *connection, void *memory)
{
    if (!memory)
        return NET_SUCCESS;
    return log_result(tutti_comm_deregister(connection->comm, memory), connection->comm, "deregistering memory");
}
