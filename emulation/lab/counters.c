/* SPDX-License-Identifier: Apache-2.0 */
/* The zero is a file of the lab's folder: the raw readings at that time, one link a line, in the topology's order. */
#include "lab/counters.h"
#include "base/error.h"
#include "wiring/config.h"
#include "lab/state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct counters_side side_of(const struct netlink_port *port)
{
    return (struct counters_side){port->tx_bytes, port->tx_packets, port->drops};
}

static enum counters_state state_of(const struct fabric_link *link)
{
    if (!link->lower.up)
        return COUNTERS_LOWER_DOWN;
    if (!link->upper.up)
        return COUNTERS_UPPER_DOWN;
    return link->lower.silent || link->upper.silent ? COUNTERS_SILENT : COUNTERS_UP;
}

static tutti_result_t read_raw(struct lab_fabric *fabric, struct counters *out)
{
    int count = fabric->topology.link_count;
    struct fabric_link *links = calloc((size_t)count + 1, sizeof *links);
    *out = (struct counters){.topology = &fabric->topology, .links = calloc((size_t)count + 1, sizeof *out->links)};
    tutti_result_t result =
        links && out->links ? fabric_read(fabric, links) : error_note(TUTTI_SYSTEM_ERROR, "out of memory for counters");
    for (int i = 0; i < count && result == TUTTI_SUCCESS; i++)
        out->links[i] = (struct counters_link){side_of(&links[i].lower), side_of(&links[i].upper), state_of(&links[i]),
                                               links[i].lower.rate};
    free(links);
    if (result != TUTTI_SUCCESS)
        counters_free(out);
    return result;
}

void counters_free(struct counters *counters)
{
    free(counters->links);
    counters->links = NULL;
}

/* A counter that went backwards (a shaper was replaced) began again at zero. */
static uint64_t less(uint64_t now, uint64_t before)
{
    return now >= before ? now - before : now;
}

static void side_subtract(struct counters_side *now, const struct counters_side *before)
{
    now->bytes = less(now->bytes, before->bytes);
    now->packets = less(now->packets, before->packets);
    now->drops = less(now->drops, before->drops);
}

void counters_subtract(struct counters *now, const struct counters *before, double seconds)
{
    for (int i = 0; i < now->topology->link_count; i++) {
        side_subtract(&now->links[i].up, &before->links[i].up);
        side_subtract(&now->links[i].down, &before->links[i].down);
    }
    now->seconds = seconds;
}

static tutti_result_t subtract_zero(struct counters *counters, const char *path)
{
    const int count = counters->topology->link_count;
    char *data, *line;
    size_t length;
    tutti_result_t result = config_read_file(path, CONFIG_FILE_LIMIT, &data, &length);
    if (result != TUTTI_SUCCESS)
        return result;
    line = data;
    for (int i = 0; i < count && result == TUTTI_SUCCESS; i++) {
        struct counters_side up, down;
        int used = 0;
        if (sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 "\n%n", &up.bytes,
                   &up.packets, &up.drops, &down.bytes, &down.packets, &down.drops, &used) != 6)
            result = error_note(TUTTI_SYSTEM_ERROR, "%s is damaged; write it again with \"tutti-lab counters --zero\"",
                                path);
        side_subtract(&counters->links[i].up, &up);
        side_subtract(&counters->links[i].down, &down);
        line += used;
    }
    free(data);
    return result;
}

tutti_result_t counters_read(struct lab_fabric *fabric, struct counters *out)
{
    char path[128];
    tutti_result_t result = read_raw(fabric, out);
    state_path(fabric->topology.spec.name, "zero", path, sizeof path);
    if (result != TUTTI_SUCCESS || access(path, F_OK) != 0)
        return result;
    result = subtract_zero(out, path);
    if (result != TUTTI_SUCCESS)
        counters_free(out);
    return result;
}

static void pause_for(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

tutti_result_t counters_measure(struct lab_fabric *fabric, double seconds, struct counters *out)
{
    struct counters before;
    tutti_result_t result = read_raw(fabric, &before);
    if (result != TUTTI_SUCCESS)
        return result;
    pause_for(seconds);
    result = read_raw(fabric, out);
    if (result == TUTTI_SUCCESS)
        counters_subtract(out, &before, seconds);
    counters_free(&before);
    return result;
}

tutti_result_t counters_zero(struct lab_fabric *fabric)
{
    struct counters counters;
    struct text text = {0};
    int lock;
    tutti_result_t result = read_raw(fabric, &counters);
    if (result != TUTTI_SUCCESS)
        return result;
    for (int i = 0; i < fabric->topology.link_count; i++) {
        const struct counters_side *up = &counters.links[i].up, *down = &counters.links[i].down;
        text_add(&text, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", up->bytes,
                 up->packets, up->drops, down->bytes, down->packets, down->drops);
    }
    result = state_lock(&lock);
    if (result == TUTTI_SUCCESS) {
        result = state_write(fabric->topology.spec.name, "zero", &text);
        state_unlock(lock);
    }
    text_free(&text);
    counters_free(&counters);
    return result;
}

static struct balance leaf_balance(const struct counters *counters, int leaf, bool up)
{
    uint64_t values[LAB_MAX_UPLINKS];
    const struct lab_topology *topology = counters->topology;
    int count = 0;
    for (int i = 0; i < topology->link_count; i++) {
        const struct lab_link *link = &topology->links[i];
        if (link->uplink && topology->nodes[link->lower.node].index == leaf)
            values[count++] = up ? counters->links[i].up.bytes : counters->links[i].down.bytes;
    }
    return balance_of(values, count);
}

/* A load is spread over the uplinks of one leaf: of all leaves together this says how well each of them does, not
 * whether they carry alike. */
struct balance counters_balance(const struct counters *counters, int leaf, bool up)
{
    int leaves = counters->topology->spec.leaves;
    struct balance all = {0, 0, 1};
    double most = 0;
    if (leaf >= 0)
        return leaf_balance(counters, leaf, up);
    for (int i = 0; i < leaves; i++) {
        struct balance one = leaf_balance(counters, i, up);
        all.mean += one.mean / leaves;
        all.variance += one.variance / leaves;
        most += one.max_over_mean * one.mean / leaves;
    }
    if (all.mean > 0)
        all.max_over_mean = most / all.mean;
    return all;
}

const char *counters_state_name(const struct counters *counters, int link)
{
    bool uplink = counters->topology->links[link].uplink;
    switch (counters->links[link].state) {
    case COUNTERS_LOWER_DOWN:
        return uplink ? "down at leaf" : "down at host";
    case COUNTERS_UPPER_DOWN:
        return uplink ? "down at spine" : "down at leaf";
    case COUNTERS_SILENT:
        return "silent";
    default:
        return "up";
    }
}
