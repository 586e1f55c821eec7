/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface by which NCCL loads a network: one table of calls for each version, found by its name. Order, types and
 * values are NVIDIA's; all else here is ours. What several versions have alike, and in one piece, is one struct: it
 * lies in the tables as its members would.
 */
#ifndef TUTTI_NCCL_NET_ABI_H
#define TUTTI_NCCL_NET_ABI_H

#include <stddef.h>
#include <stdint.h>

#define NET_HANDLE 128 /* bytes of a handle, which NCCL carries from the receiver to the sender */
#define NET_REQUESTS                                                                                                   \
    32 /* sends, or receives, of one connection that NCCL has under way at most; 8 in its older releases */
#define NET_FUSED      4           /* devices that make one virtual device, at most */
#define NET_NO_CLASS   (-1)        /* of traffic: none was asked for */
#define NET_ANY_ENDING ((void *)1) /* of a request: the receiver finds the end by itself, in the data */

enum net_result {
    NET_SUCCESS = 0,
    NET_DEVICE_ERROR = 1,
    NET_SYSTEM_ERROR = 2,
    NET_INTERNAL_ERROR = 3, /* NCCL broke a rule of this interface, or we did */
    NET_INVALID_ARGUMENT = 4,
    NET_INVALID_USAGE = 5,
    NET_REMOTE_ERROR = 6
};

enum net_pointer { NET_HOST_MEMORY = 1, NET_CUDA_MEMORY = 2, NET_DMABUF = 4 }; /* as bits */
enum net_level { NET_LOG_WARN = 2, NET_LOG_INFO = 3 };
enum net_subsystem { NET_LOG_INIT = 1, NET_LOG_NET = 16 }; /* as bits */

typedef void net_log_fn(enum net_level level, unsigned long subsystems, const char *file, int line, const char *format,
                        ...);
typedef enum net_result net_profile_fn(void **event, int type, void *parent, int64_t plugin, void *data);

struct net_fused {
    int count;
    int device[NET_FUSED];
};

/* Of the connections of a communicator. */
struct net_wishes {
    int traffic_class;
};

struct net_properties_8 {
    char *name;
    char *pci_path;    /* a folder of /sys; NULL: it has none */
    uint64_t guid;     /* of the adapter */
    int pointers;      /* enum net_pointer */
    int global_memory; /* what is registered holds for all connections */
    int speed;         /* Mbit/s */
    int port;
    float latency; /* us; 0: unknown */
    int most_connections;
    int most_grouped; /* receives that one call takes */
    int device_type;  /* 0: the processor drives the network */
    int device_version;
};

/* Of versions 9 and 10. */
struct net_properties_9 {
    char *name;
    char *pci_path;
    uint64_t guid;
    int pointers;
    int global_memory;
    int must_flush;
    int speed;
    int port;
    float latency;
    int most_connections;
    int most_grouped;
    int device_type;
    int device_version;
    struct net_fused fused; /* the physical devices of this one */
    size_t most_bytes;      /* of one send; of a collective's: */
    size_t most_collective_bytes;
};

struct net_properties_11 {
    struct net_properties_9 common;
    int most_at_once; /* requests that one call takes */
};

/* Hints of what a communicator is going to do. */
struct net_hints {
    struct {
        int32_t most_peers, least_peers, most_flows, least_flows;
    } sends, receives;
    uint32_t op, algorithm, protocol;
};

/* ---- What all versions have ---- */

struct net_memory_calls {
    enum net_result (*accept)(void *listener, void **connection, void **device);
    enum net_result (*register_memory)(void *connection, void *data, size_t size, int pointer, void **memory);
    enum net_result (*register_dmabuf)(void *connection, void *data, size_t size, int pointer, uint64_t offset, int fd,
                                       void **memory);
    enum net_result (*deregister_memory)(void *connection, void *memory);
};

struct net_end_calls {
    enum net_result (*flush)(void *connection, int n, void **data, int *sizes, void **memory, void **request);
    enum net_result (*test)(void *request, int *done, int *sizes);
    enum net_result (*close_send)(void *connection);
    enum net_result (*close_receive)(void *connection);
    enum net_result (*close_listen)(void *listener);
    enum net_result (*device_memory)(void *connection, void *memory, void **out);
    enum net_result (*consumed)(void *connection, int n, void *request);
};

typedef enum net_result net_fuse_fn(int *device, struct net_fused *parts);
typedef enum net_result net_connect_fn(int device, void *handle, void **connection, void **on_device);
typedef enum net_result net_connect_as_fn(int device, struct net_wishes *wishes, void *handle, void **connection,
                                          void **on_device);
typedef enum net_result net_connect_in_fn(void *context, int device, void *handle, void **connection, void **on_device);
typedef enum net_result net_send_fn(void *connection, void *data, size_t size, int tag, void *memory, void *event,
                                    void **request);
typedef enum net_result net_receive_fn(void *connection, int n, void **data, size_t *sizes, int *tags, void **memory,
                                       void **events, void **request);

/* ---- The tables ---- */

struct net_table_8 {
    const char *name;
    enum net_result (*init)(net_log_fn *log);
    enum net_result (*devices)(int *count);
    enum net_result (*properties)(int device, struct net_properties_8 *out);
    enum net_result (*listen)(int device, void *handle, void **listener);
    net_connect_fn *connect;
    struct net_memory_calls memory;
    enum net_result (*send)(void *connection, void *data, int size, int tag, void *memory, void **request);
    enum net_result (*receive)(void *connection, int n, void **data, int *sizes, int *tags, void **memory,
                               void **request);
    struct net_end_calls end;
};

struct net_table_9 {
    const char *name;
    enum net_result (*init)(net_log_fn *log);
    enum net_result (*devices)(int *count);
    enum net_result (*properties)(int device, struct net_properties_9 *out);
    enum net_result (*listen)(int device, void *handle, void **listener);
    net_connect_fn *connect;
    struct net_memory_calls memory;
    enum net_result (*send)(void *connection, void *data, size_t size, int tag, void *memory, void **request);
    enum net_result (*receive)(void *connection, int n, void **data, size_t *sizes, int *tags, void **memory,
                               void **request);
    struct net_end_calls end;
    net_fuse_fn *fuse; /* NULL: devices are not made into others */
};

struct net_table_10 {
    const char *name;
    enum net_result (*init)(net_log_fn *log, net_profile_fn *profiler);
    enum net_result (*devices)(int *count);
    enum net_result (*properties)(int device, struct net_properties_9 *out);
    enum net_result (*listen)(int device, void *handle, void **listener);
    net_connect_as_fn *connect;
    struct net_memory_calls memory;
    net_send_fn *send;
    net_receive_fn *receive;
    struct net_end_calls end;
    net_fuse_fn *fuse;
};

struct net_table_11 {
    const char *name;
    enum net_result (*init)(void **context, uint64_t communicator, struct net_wishes *wishes, net_log_fn *log,
                            net_profile_fn *profiler);
    enum net_result (*devices)(int *count);
    enum net_result (*properties)(int device, struct net_properties_11 *out);
    enum net_result (*listen)(void *context, int device, void *handle, void **listener);
    net_connect_in_fn *connect;
    struct net_memory_calls memory;
    net_send_fn *send;
    net_receive_fn *receive;
    struct net_end_calls end;
    net_fuse_fn *fuse;
    enum net_result (*finalize)(void *context);
    enum net_result (*hint)(void *context, struct net_hints *hints);
};

#endif
