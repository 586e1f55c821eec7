/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers in host memory. */
#include "cli/perf.h"

#include <stdlib.h>
#include <string.h>

static void open_seat(struct seat *seat, int local_rank)
{
    *seat = (struct seat){.device = TUTTI_HOST, .number = local_rank, .bus_id = "cpu", .name = "host memory"};
}

static void close_seat(struct seat *seat)
{
}

static char *take(struct seat *seat, size_t bytes, bool registered)
{
    void *buffer;
    if (!registered) {
        buffer = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
        if (!buffer)
            perf_die("out of memory for buffers: give a smaller -e");
        return buffer;
    }
    perf_must(tutti_mem_alloc(&buffer, bytes), "allocating a buffer", NULL);
    return buffer;
}

static void drop(struct seat *seat, char *buffer, bool registered)
{
    if (registered)
        tutti_mem_free(buffer);
    else
        free(buffer);
}

static void set(struct seat *seat, char *at, int byte, size_t bytes)
{
    memset(at, byte, bytes);
}

static char *write_there(struct seat *seat, char *at)
{
    return at;
}

static void written(struct seat *seat, char *at, size_t bytes)
{
}

static const char *read_there(struct seat *seat, const char *at, size_t bytes)
{
    return at;
}

static void synchronize(struct seat *seat, tutti_comm_t comm)
{
    perf_must(tutti_comm_synchronize(comm), "synchronize", comm);
}

/* The host captures nothing: see perf_options.c. */
const struct perf_place place_host = {.open = open_seat,
                                      .close = close_seat,
                                      .take = take,
                                      .drop = drop,
                                      .set = set,
                                      .write = write_there,
                                      .written = written,
                                      .read = read_there,
                                      .synchronize = synchronize};
