/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tutti.h: the public interface of tutti, a collective communication library.
 *
 * Shapes. Counts are in elements, sizes in bytes. "n" is the number of ranks. Every rank of a communicator must issue the same
 * collectives, in the same order, with the same arguments (roots, counts, types, operators).
 *
 * Order. Calls are asynchronous: they enqueue an operation on a stream and return. Operations of one stream, and of one
 * communicator, run in the order of their calls. A NULL stream is the communicator's own stream. Buffers belong to the
 * library from the call until the stream has been synchronized.
 *
 * Errors. Every call returns a tutti_result_t. On failure tutti_get_last_error() says what was tried, on what, what came
 * back and what to do. An argument error changes nothing. A fault (dead peer, timeout) is kept in the communicator:
 * tutti_comm_get_async_error() reports it, and every later call on it returns it.
 *
 * Threads. Different communicators may be used by different threads at once. One communicator may be used by one thread at a
 * time, except tutti_comm_abort() and tutti_comm_get_async_error(), which any thread may call at any time.
 */
#ifndef TUTTI_H
#define TUTTI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0
#define TUTTI_VERSION       (TUTTI_VERSION_MAJOR * 10000 + TUTTI_VERSION_MINOR * 100 + TUTTI_VERSION_PATCH)

#define TUTTI_API           __attribute__((visibility("default")))

typedef enum tutti_result {
    TUTTI_SUCCESS = 0,
    TUTTI_DEVICE_ERROR = 1,     /* a call of the device's driver failed */
    TUTTI_SYSTEM_ERROR = 2,     /* the operating system refused: memory, sockets, files */
    TUTTI_INTERNAL_ERROR = 3,   /* a bug in tutti */
    TUTTI_INVALID_ARGUMENT = 4, /* one argument is wrong by itself */
    TUTTI_INVALID_USAGE = 5,    /* the arguments do not fit together, or the call does not fit the state or the peers */
    TUTTI_REMOTE_ERROR = 6,     /* a peer died, left, or did not answer in time */
    TUTTI_IN_PROGRESS = 7,      /* not finished yet; ask again */
    TUTTI_RESULT_COUNT = 8
} tutti_result_t;

typedef enum tutti_type {
    TUTTI_INT8 = 0,
    TUTTI_UINT8 = 1,
    TUTTI_INT32 = 2,
    TUTTI_UINT32 = 3,
    TUTTI_INT64 = 4,
    TUTTI_UINT64 = 5,
    TUTTI_FLOAT16 = 6,
    TUTTI_FLOAT32 = 7,
    TUTTI_FLOAT64 = 8,
    TUTTI_BFLOAT16 = 9,
    TUTTI_FLOAT8_E4M3 = 10, /* no infinities, NaN = 0x7f; overflow gives NaN's neighbour 448 (saturates) */
    TUTTI_FLOAT8_E5M2 = 11, /* IEEE-like; overflow saturates to 57344 */
    TUTTI_TYPE_COUNT = 12
} tutti_type_t;

typedef enum tutti_op {
    TUTTI_SUM = 0,
    TUTTI_PROD = 1,
    TUTTI_MAX = 2,
    TUTTI_MIN = 3,
    TUTTI_AVG = 4, /* sum, then divided by n; integers truncate towards zero */
    TUTTI_OP_COUNT = 5
    /* larger values come from tutti_op_create_premul_sum() */
} tutti_op_t;

typedef struct tutti_comm *tutti_comm_t;
typedef struct tutti_stream *tutti_stream_t;

#define TUTTI_UNIQUE_ID_BYTES 128
typedef struct tutti_unique_id {
    char bytes[TUTTI_UNIQUE_ID_BYTES];
} tutti_unique_id_t;

#ifdef __cplusplus
}
#endif
#endif
