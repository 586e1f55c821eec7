/* SPDX-License-Identifier: Apache-2.0 */
/* The four tables, and what their versions have of their own. */
#include "nccl-net/net.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char plugin_name[] = "tutti";

/* ---- Calls that all versions have ---- */

static struct net_devices all;

static void look_once(void)
{
    devices_look("/sys/class/net", &all);
}

static enum net_result init(net_log_fn *logger)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    log_open(logger);
    if (!meet_possible())
        return NET_INVALID_USAGE;
    pthread_once(&once, look_once);
    LOG_INFO("tutti %d: %d devices of %d Mbit/s, each for all lanes", tutti_get_version(), all.count, all.speed);
    return NET_SUCCESS;
}

static enum net_result devices(int *count)
{
    *count = all.count;
    return NET_SUCCESS;
}

static bool known(int index)
{
    bool is = index >= 0 && index < all.count;
    if (!is)
        LOG_WARN("there are %d devices, and number %d was asked for", all.count, index);
    return is;
}

static enum net_result listen(int index, void *handle, void **listener)
{
    return known(index) ? meet_listen(handle, (struct net_listener **)listener) : NET_INTERNAL_ERROR;
}

static enum net_result connect_in(void *context, int index, void *handle, void **connection, void **on_device)
{
    return known(index) ? meet_connect(context, handle, (struct connection **)connection) : NET_INTERNAL_ERROR;
}

static enum net_result connect(int index, void *handle, void **connection, void **on_device)
{
    return connect_in(NULL, index, handle, connection, on_device);
}

static enum net_result accept(void *listener, void **connection, void **on_device)
{
    return meet_accept(listener, (struct connection **)connection);
}

static enum net_result register_memory(void *connection, void *data, size_t size, int pointer, void **memory)
{
    if (pointer == NET_HOST_MEMORY)
        return connection_register(connection, data, size, memory);
    LOG_WARN("memory of kind %d cannot be registered: host memory alone is sent", pointer);
    return NET_INTERNAL_ERROR;
}

static enum net_result register_dmabuf(void *connection, void *data, size_t size, int pointer, uint64_t offset, int fd,
                                       void **memory)
{
    LOG_WARN("memory of a GPU cannot be registered: host memory alone is sent");
    return NET_INTERNAL_ERROR;
}

static enum net_result deregister_memory(void *connection, void *memory)
{
    return connection_deregister(connection, memory);
}

static enum net_result send(void *connection, void *data, size_t size, int tag, void *memory, void *event,
                            void **request)
{
    return connection_post(connection, NET_SENDER, 1, &data, &size, &tag, (struct net_request **)request);
}

static enum net_result receive(void *connection, int n, void **data, size_t *sizes, int *tags, void **memory,
                               void **events, void **request)
{
    return connection_post(connection, NET_RECEIVER, n, data, sizes, tags, (struct net_request **)request);
}

/* What has come to host memory is there when the test says so. */
static enum net_result flush(void *connection, int n, void **data, int *sizes, void **memory, void **request)
{
    *request = NULL;
    return NET_SUCCESS;
}

static enum net_result test(void *request, int *done, int *sizes)
{
    return connection_test(request, done, sizes);
}

static enum net_result close_connection(void *connection)
{
    connection_close(connection);
    return NET_SUCCESS;
}

static enum net_result close_listen(void *listener)
{
    meet_close(listener);
    return NET_SUCCESS;
}

#define MEMORY_CALLS                                                                                                   \
    {                                                                                                                  \
        accept, register_memory, register_dmabuf, deregister_memory                                                    \
    }
#define END_CALLS                                                                                                      \
    {                                                                                                                  \
        flush, test, close_connection, close_connection, close_listen, NULL, NULL                                      \
    }

/* ---- Properties ---- */

static enum net_result properties_8(int index, struct net_properties_8 *out)
{
    if (!known(index))
        return NET_INTERNAL_ERROR;
    *out = (struct net_properties_8){.name = all.device[index].name,
                                     .pci_path = all.device[index].pci_path,
                                     .guid = (uint64_t)index, /* NCCL takes those that are equal for one adapter */
                                     .pointers = NET_HOST_MEMORY,
                                     .speed = all.speed,
                                     .most_connections = 1 << 16,
                                     .most_grouped = NET_GROUPED};
    return NET_SUCCESS;
}

static enum net_result properties_9(int index, struct net_properties_9 *out)
{
    if (!known(index))
        return NET_INTERNAL_ERROR;
    *out = (struct net_properties_9){.name = all.device[index].name,
                                     .pci_path = all.device[index].pci_path,
                                     .guid = (uint64_t)index,
                                     .pointers = NET_HOST_MEMORY,
                                     .speed = all.speed,
                                     .most_connections = 1 << 16,
                                     .most_grouped = NET_GROUPED,
                                     .fused = {.count = 1, .device = {index}},
                                     .most_bytes = NET_MOST_BYTES,
                                     .most_collective_bytes = NET_MOST_BYTES};
    return NET_SUCCESS;
}

static enum net_result properties_11(int index, struct net_properties_11 *out)
{
    enum net_result result = properties_9(index, &out->common);
    if (result == NET_SUCCESS)
        out->most_at_once = 1;
    return result;
}

/* ---- Version 8 ---- */

static enum net_result send_int(void *connection, void *data, int size, int tag, void *memory, void **request)
{
    return send(connection, data, (size_t)size, tag, memory, NULL, request); /* a negative one is too large */
}

static enum net_result receive_int(void *connection, int n, void **data, int *sizes, int *tags, void **memory,
                                   void **request)
{
    size_t many[NET_GROUPED];
    for (int i = 0; i < n && i < NET_GROUPED; i++)
        many[i] = (size_t)sizes[i];
    return receive(connection, n, data, many, tags, memory, NULL, request);
}

/* ---- Version 9 ---- */

static enum net_result send_plainly(void *connection, void *data, size_t size, int tag, void *memory, void **request)
{
    return send(connection, data, size, tag, memory, NULL, request);
}

static enum net_result receive_plainly(void *connection, int n, void **data, size_t *sizes, int *tags, void **memory,
                                       void **request)
{
    return receive(connection, n, data, sizes, tags, memory, NULL, request);
}

/* ---- Versions 10 and 11: communicators with wishes ---- */

static void note_class(const struct net_wishes *wishes)
{
    if (wishes && wishes->traffic_class != NET_NO_CLASS)
        LOG_INFO("traffic class %d is not set: TUTTI_IB_TC sets it for all", wishes->traffic_class);
}

static enum net_result init_profiled(net_log_fn *logger, net_profile_fn *profiler)
{
    return init(logger);
}

static enum net_result connect_as(int index, struct net_wishes *wishes, void *handle, void **connection,
                                  void **on_device)
{
    enum net_result result = connect(index, handle, connection, on_device);
    if (result == NET_SUCCESS && *connection)
        note_class(wishes);
    return result;
}

/* A context tells whose unfinished connects there are to be given up. */
static enum net_result init_context(void **context, uint64_t communicator, struct net_wishes *wishes,
                                    net_log_fn *logger, net_profile_fn *profiler)
{
    enum net_result result = init(logger);
    if (result != NET_SUCCESS)
        return result;
    note_class(wishes);
    *context = malloc(1);
    return *context ? NET_SUCCESS : NET_SYSTEM_ERROR;
}

static enum net_result listen_in(void *context, int index, void *handle, void **listener)
{
    return listen(index, handle, listener);
}

static enum net_result finalize(void *context)
{
    meet_give_up(context);
    free(context);
    return NET_SUCCESS;
}

/* Hints, of which lanes have no need. */
static enum net_result hint(void *context, struct net_hints *hints)
{
    return NET_SUCCESS;
}

/* ---- The tables ---- */

#define EXPORT __attribute__((visibility("default")))

/* Fusing devices would make nothing new: each of them has all lanes. */
EXPORT const struct net_table_8 ncclNetPlugin_v8 = {
    plugin_name, init, devices, properties_8, listen, connect, MEMORY_CALLS, send_int, receive_int, END_CALLS,
};
EXPORT const struct net_table_9 ncclNetPlugin_v9 = {
    plugin_name,  init,         devices,         properties_9, listen, connect,
    MEMORY_CALLS, send_plainly, receive_plainly, END_CALLS,    NULL,
};
EXPORT const struct net_table_10 ncclNetPlugin_v10 = {
    plugin_name, init_profiled, devices, properties_9, listen, connect_as, MEMORY_CALLS, send, receive, END_CALLS, NULL,
};
EXPORT const struct net_table_11 ncclNetPlugin_v11 = {
    plugin_name, init_context, devices,   properties_11, listen_in, connect_in, MEMORY_CALLS,
    send,        receive,      END_CALLS, NULL,          finalize,  hint,
};
