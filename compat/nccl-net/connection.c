/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of one connection. A communicator runs one operation after another, so what is posted while one runs goes
 * together as the next: a group of a head, which says how many payloads follow and how long each is, and of these. A
 * receiver asks for a head only when it has buffers, so that a connection without requests has nothing under way and
 * can be closed in peace.
 */
#include "nccl-net/net.h"

#include <pthread.h>
#include <stdlib.h>

#define HEAD_MARK 0x7475746e /* tells the layout of a head, too */

struct net_request {
    struct connection *connection;
    void *data;
    size_t size; /* when it is over: of what went, or came */
    bool used;   /* until a test has said that it is over */
};

struct head {
    uint32_t mark, count;
    uint64_t size[NET_REQUESTS];
};

struct connection {
    pthread_mutex_t lock;
    tutti_comm_t comm;
    tutti_stream_t stream;
    int rank;
    enum net_result failed;
    struct net_request request[NET_REQUESTS]; /* by position */
    uint64_t posted, issued, over;            /* positions: those below are */
    bool running;                             /* an operation is */
    struct head head;
    uint32_t told, taken; /* of the receiver's head: payloads that it tells of, and those that have been asked for */
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
    if (connection->running || connection->posted != connection->over)
        tutti_comm_abort(connection->comm);
    tutti_stream_destroy(connection->stream);
    tutti_comm_destroy(connection->comm);
    pthread_mutex_destroy(&connection->lock);
    free(connection);
}

/* ---- Operations ---- */

static struct net_request *at(struct connection *connection, uint64_t position)
{
    return &connection->request[position % NET_REQUESTS];
}

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

static void send_all(struct connection *connection)
{
    struct head *head = &connection->head;
    *head = (struct head){.mark = HEAD_MARK};
    for (uint64_t i = connection->issued; i < connection->posted; i++)
        head->size[head->count++] = at(connection, i)->size;
    tutti_group_start();
    add(connection, head, sizeof *head);
    for (; connection->issued < connection->posted; connection->issued++)
        add(connection, at(connection, connection->issued)->data, at(connection, connection->issued)->size);
    run(connection);
}

static void ask_for_head(struct connection *connection)
{
    tutti_group_start();
    add(connection, &connection->head, sizeof connection->head);
    run(connection);
}

/* The next payload's length. False: the buffer is too small for it. */
static bool take_size(struct connection *connection, struct net_request *request)
{
    uint64_t size = connection->head.size[connection->taken++];
    if (size > request->size) {
        LOG_WARN("a send of %llu bytes meets a receive of %zu", (unsigned long long)size, request->size);
        fail(connection, NET_INVALID_USAGE);
        return false;
    }
    request->size = size;
    return true;
}

/* Asks for as many payloads as there are buffers for. */
static void receive_some(struct connection *connection)
{
    uint64_t first = connection->issued;
    while (connection->taken < connection->told && connection->issued < connection->posted)
        if (!take_size(connection, at(connection, connection->issued++)))
            return;
    tutti_group_start();
    for (uint64_t i = first; i < connection->issued; i++)
        add(connection, at(connection, i)->data, at(connection, i)->size);
    run(connection);
}

static void read_head(struct connection *connection)
{
    const struct head *head = &connection->head;
    if (head->mark != HEAD_MARK || !head->count || head->count > NET_REQUESTS) {
        LOG_WARN("the sender says what no sender of ours does (mark %x, %u payloads)", head->mark, head->count);
        fail(connection, NET_REMOTE_ERROR);
        return;
    }
    connection->told = head->count;
    connection->taken = 0;
}

/* The operation that ran is over. */
static void settle(struct connection *connection)
{
    bool was_head = connection->rank == NET_RECEIVER && connection->issued == connection->over;
    connection->running = false;
    enum net_result result = log_result(tutti_stream_synchronize(connection->stream), connection->comm,
                                        connection->rank == NET_SENDER ? "sending" : "receiving");
    if (result != NET_SUCCESS)
        fail(connection, result);
    else if (was_head)
        read_head(connection);
    else
        connection->over = connection->issued;
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

/* Goes as far as it goes without waiting. */
static void progress(struct connection *connection)
{
    while (connection->failed == NET_SUCCESS) {
        if (!connection->running && connection->issued == connection->posted)
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

enum net_result connection_post(struct connection *connection, int rank, void *data, size_t size,
                                struct net_request **out)
{
    *out = NULL;
    if (connection->rank != rank || size > NET_MOST_BYTES) {
        LOG_WARN("rank %d of a connection is asked to %s %zu bytes", connection->rank,
                 rank == NET_SENDER ? "send" : "receive", size);
        return NET_INTERNAL_ERROR;
    }
    pthread_mutex_lock(&connection->lock);
    struct net_request *request = at(connection, connection->posted);
    if (connection->failed == NET_SUCCESS && !request->used) {
        *request = (struct net_request){connection, data, size, true};
        connection->posted++;
        *out = request;
        progress(connection);
    }
    enum net_result result = connection->failed;
    pthread_mutex_unlock(&connection->lock);
    return result;
}

static bool is_over(const struct connection *connection, const struct net_request *request)
{
    uint64_t slot = (uint64_t)(request - connection->request);
    for (uint64_t i = connection->over; i < connection->posted; i++)
        if (i % NET_REQUESTS == slot)
            return false;
    return true;
}

enum net_result connection_test(struct net_request *request, int *done, int *size)
{
    struct connection *connection = request->connection;
    enum net_result result = NET_SUCCESS;
    pthread_mutex_lock(&connection->lock);
    if (!is_over(connection, request))
        progress(connection);
    *done = is_over(connection, request);
    if (*done) {
        if (size)
            *size = (int)request->size;
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
