/* SPDX-License-Identifier: Apache-2.0 */
/* The place of the buffers of a measurement, and the waits of their ranks: host memory (perf_host.c) or GPUs
 * (perf_gpu.c). */
#ifndef TUTTI_CLI_PERF_PLACE_H
#define TUTTI_CLI_PERF_PLACE_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stddef.h>

enum { PLACE_CHUNK = 4 << 20 }; /* the most bytes that are written or read at once */

/* The buffers of one rank. */
struct seat {
    int device; /* of the communicator's config */
    tutti_stream_t stream;
    int number; /* number of the GPU, or of the rank among its host's */
    char bus_id[16], name[64];
    struct seat_gpu *gpu;
};

/* Failures end the process with a sentence. */
struct perf_place {
    void (*open)(struct seat *seat, int local_rank);
    void (*close)(struct seat *seat);
    char *(*take)(struct seat *seat, size_t bytes, bool registered);
    void (*drop)(struct seat *seat, char *buffer, bool registered);
    void (*set)(struct seat *seat, char *at, int byte, size_t bytes);
    /* Host memory for the data at `at`, which are there after written(). */
    char *(*write)(struct seat *seat, char *at);
    void (*written)(struct seat *seat, char *at, size_t bytes);
    /* The data at `at`, until the next call for this seat. */
    const char *(*read)(struct seat *seat, const char *at, size_t bytes);
    void (*synchronize)(struct seat *seat, tutti_comm_t comm);
    /* Captures the operations that are issued between the two; they run at each replay. */
    void (*capture)(struct seat *seat);
    void (*captured)(struct seat *seat);
    void (*replay)(struct seat *seat);
    void (*forget)(struct seat *seat);
};

extern const struct perf_place place_host, place_gpu;

/* The number of GPUs that this process sees; 0 if there is no driver or no GPU, and error_last() says which. */
int place_gpus(void);

#endif
