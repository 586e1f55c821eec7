/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of links, and questions about a fabric. */
#include "model/fabric.h"
#include "base/error.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fabric_free(struct fabric *fabric)
{
    free(fabric->building);
    free(fabric->zone);
    free(fabric->spine);
    free(fabric->core);
    free(fabric->leaf);
    free(fabric->uplink);
    free(fabric->host);
    free(fabric->nic);
    free(fabric->gpu_host);
    free(fabric->words);
    *fabric = (struct fabric){0};
}

bool fabric_keep(struct fabric *fabric, const char *text, fabric_word_t *out)
{
    size_t length = strlen(text) + 1, start = fabric->words_length ? (size_t)fabric->words_length : 1;
    if (length > FABRIC_WORDS || start > FABRIC_WORDS - length)
        return false;
    if (start + length > (size_t)fabric->words_room) {
        size_t room = 2 * (start + length);
        char *grown = realloc(fabric->words, room);
        if (!grown)
            return false;
        fabric->words = grown;
        fabric->words_room = (int32_t)room;
        grown[0] = 0;
    }
    memcpy(fabric->words + start, text, length);
    fabric->words_length = (int32_t)(start + length);
    *out = (fabric_word_t)start;
    return true;
}

const char *fabric_word(const struct fabric *fabric, fabric_word_t word)
{
    return word ? fabric->words + word : "";
}

static int uplinks_by_spine(const void *left, const void *right)
{
    const struct fabric_uplink *a = left, *b = right;
    if (a->leaf != b->leaf)
        return a->leaf < b->leaf ? -1 : 1;
    return a->spine != b->spine ? (a->spine < b->spine ? -1 : 1) : (a->place > b->place) - (a->place < b->place);
}

static void number_uplinks(struct fabric *fabric)
{
    for (int32_t u = 0; u < fabric->uplinks; u++)
        fabric->uplink[u].place = u;
    if (fabric->uplinks)
        qsort(fabric->uplink, (size_t)fabric->uplinks, sizeof *fabric->uplink, uplinks_by_spine);
    int32_t at = 0;
    for (int32_t l = 0; l < fabric->leaves; l++) {
        fabric->leaf[l].first = at;
        while (at < fabric->uplinks && fabric->uplink[at].leaf == l)
            at++;
        fabric->leaf[l].count = at - fabric->leaf[l].first;
    }
    at = 0;
    for (int32_t s = 0; s < fabric->spines; s++) { /* core uplinks come spine by spine */
        fabric->spine[s].first = at;
        while (at < fabric->cores && fabric->core[at].spine == s)
            at++;
        fabric->spine[s].count = at - fabric->spine[s].first;
    }
}

static void number_ports(struct fabric *fabric)
{
    for (int32_t l = 0; l < fabric->leaves; l++)
        fabric->leaf[l].ports = 0;
    for (int32_t n = 0; n < fabric->nics; n++)
        for (int32_t p = 0; p < fabric->nic[n].ports; p++)
            fabric->nic[n].port[p].number = fabric->leaf[fabric->nic[n].port[p].leaf].ports++;
}

tutti_result_t fabric_finish(struct fabric *fabric)
{
    int32_t gpu = 0;
    fabric->gpus = 0;
    for (int32_t h = 0; h < fabric->hosts; h++) {
        fabric->host[h].gpu = fabric->gpus;
        fabric->gpus += fabric->host[h].gpus;
    }
    fabric->gpu_host = malloc(((size_t)fabric->gpus + 1) * sizeof *fabric->gpu_host);
    if (!fabric->gpu_host)
        return error_note(TUTTI_SYSTEM_ERROR, "fabric %s: no memory for %d GPUs", fabric->name, fabric->gpus);
    for (int32_t h = 0; h < fabric->hosts; h++)
        for (int32_t g = 0; g < fabric->host[h].gpus; g++)
            fabric->gpu_host[gpu++] = h;
    number_uplinks(fabric);
    number_ports(fabric);
    return TUTTI_SUCCESS;
}

/* ---- links ---- */

static int32_t first_port(const struct fabric *fabric)
{
    return 2 * fabric->gpus;
}

static int32_t first_uplink(const struct fabric *fabric)
{
    return first_port(fabric) + 2 * FABRIC_PORTS * fabric->nics;
}

static int32_t first_core(const struct fabric *fabric)
{
    return first_uplink(fabric) + 2 * fabric->uplinks;
}

static int32_t first_trunk(const struct fabric *fabric)
{
    return first_core(fabric) + 2 * fabric->cores;
}

int32_t fabric_links(const struct fabric *fabric)
{
    return first_trunk(fabric) + 2 * fabric->buildings;
}

int32_t fabric_gpu_link(const struct fabric *fabric, int32_t gpu, enum fabric_way way)
{
    return 2 * gpu + (int32_t)way;
}

int32_t fabric_port_link(const struct fabric *fabric, int32_t nic, int32_t port, enum fabric_way way)
{
    return first_port(fabric) + 2 * (FABRIC_PORTS * nic + port) + (int32_t)way;
}

int32_t fabric_uplink_link(const struct fabric *fabric, int32_t uplink, enum fabric_way way)
{
    return first_uplink(fabric) + 2 * uplink + (int32_t)way;
}

int32_t fabric_core_link(const struct fabric *fabric, int32_t core, enum fabric_way way)
{
    return first_core(fabric) + 2 * core + (int32_t)way;
}

int32_t fabric_trunk_link(const struct fabric *fabric, int32_t building, enum fabric_way way)
{
    return first_trunk(fabric) + 2 * building + (int32_t)way;
}

void fabric_capacities(const struct fabric *fabric, double *capacity)
{
    for (int way = 0; way < 2; way++) {
        for (int32_t g = 0; g < fabric->gpus; g++)
            capacity[fabric_gpu_link(fabric, g, way)] = fabric->gpu_rate;
        for (int32_t n = 0; n < fabric->nics; n++)
            for (int32_t p = 0; p < FABRIC_PORTS; p++)
                capacity[fabric_port_link(fabric, n, p, way)] = fabric->nic[n].port[p].rate;
        for (int32_t u = 0; u < fabric->uplinks; u++)
            capacity[fabric_uplink_link(fabric, u, way)] = fabric->uplink[u].down ? 0 : fabric->uplink[u].rate;
        for (int32_t c = 0; c < fabric->cores; c++)
            capacity[fabric_core_link(fabric, c, way)] = fabric->core[c].rate;
        for (int32_t b = 0; b < fabric->buildings; b++)
            capacity[fabric_trunk_link(fabric, b, way)] = fabric->building[b].trunk;
    }
}

struct fabric_range fabric_uplinks_to(const struct fabric *fabric, int32_t leaf, int32_t spine, int32_t place)
{
    int32_t begin = fabric->leaf[leaf].first, end = begin + fabric->leaf[leaf].count, low = begin, high = end;
    if (place < end - begin && fabric->uplink[begin + place].spine == spine)
        low = high = begin + place;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (fabric->uplink[middle].spine < spine)
            low = middle + 1;
        else
            high = middle;
    }
    while (low > begin && fabric->uplink[low - 1].spine == spine)
        low--;
    while (high < end && fabric->uplink[high].spine == spine)
        high++;
    return (struct fabric_range){low, high - low};
}

void fabric_link_name(const struct fabric *fabric, int32_t link, char *out, size_t size)
{
    static const char *const ways[] = {"up", "down"};
    const char *way = ways[link & 1];
    if (link < first_port(fabric)) {
        const struct fabric_host *host = &fabric->host[fabric->gpu_host[link / 2]];
        snprintf(out, size, "%s.g%d %s", host->name, link / 2 - host->gpu, way);
    } else if (link < first_uplink(fabric)) {
        int32_t port = (link - first_port(fabric)) / 2;
        const struct fabric_nic *nic = &fabric->nic[port / FABRIC_PORTS];
        snprintf(out, size, "%s.%s%s %s", fabric->host[nic->host].name, nic->name,
                 nic->ports == 1       ? ""
                 : port % FABRIC_PORTS ? " right"
                                       : " left",
                 way);
    } else if (link < first_core(fabric)) {
        int32_t u = (link - first_uplink(fabric)) / 2;
        const struct fabric_leaf *leaf = &fabric->leaf[fabric->uplink[u].leaf];
        snprintf(out, size, "%s.u%d %s", leaf->name, u - leaf->first, way);
    } else if (link < first_trunk(fabric)) {
        int32_t c = (link - first_core(fabric)) / 2;
        const struct fabric_spine *spine = &fabric->spine[fabric->core[c].spine];
        snprintf(out, size, "%s.c%d %s", spine->name, c - spine->first, way);
    } else {
        snprintf(out, size, "trunk of %s %s", fabric->building[(link - first_trunk(fabric)) / 2].name, way);
    }
}

/* ---- questions ---- */

int32_t fabric_nic_of(const struct fabric *fabric, int32_t gpu, int lane)
{
    const struct fabric_host *host = &fabric->host[fabric->gpu_host[gpu]];
    int64_t place = gpu - host->gpu;
    int32_t first = (int32_t)(place * host->nics / host->gpus), end = (int32_t)((place + 1) * host->nics / host->gpus);
    int32_t count = end > first ? end - first : 1;
    return host->nic + first + lane % count;
}

enum fabric_distance fabric_distance_of(const struct fabric *fabric, int32_t from, int32_t to)
{
    if (fabric->gpu_host[from] == fabric->gpu_host[to])
        return FABRIC_HOST;
    int32_t a = fabric->nic[fabric_nic_of(fabric, from, 0)].port[0].leaf;
    int32_t b = fabric->nic[fabric_nic_of(fabric, to, 0)].port[0].leaf;
    if (a == b)
        return FABRIC_RACK;
    int32_t zone = fabric->leaf[a].zone, other = fabric->leaf[b].zone;
    if (zone == other)
        return FABRIC_ZONE;
    return fabric->zone[zone].building == fabric->zone[other].building ? FABRIC_BUILDING : FABRIC_CAMPUS;
}

int32_t fabric_find_host(const struct fabric *fabric, const char *name)
{
    for (int32_t h = 0; h < fabric->hosts; h++)
        if (strcmp(fabric->host[h].name, name) == 0)
            return h;
    return -1;
}
