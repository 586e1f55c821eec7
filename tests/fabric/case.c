/* SPDX-License-Identifier: Apache-2.0 */
/*
 * case FABRIC PATHS SEED <FLOWS: what the model says of flows on a fabric, for a test that computes it in another way.
 * A line of FLOWS is FROM TO LANE LANES BYTES START: two GPUs, a lane of theirs, bytes and seconds. Prints
 *   link NUMBER BYTES-PER-SECOND     of the links in use
 *   flow FINISH RATE LINK...         in the order of FLOWS; RATE: if all flows went at once
 */
#include "base/error.h"
#include "file/read.h"
#include "model/maxmin.h"
#include "model/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

static struct route_flow flow[MOST];
static double bytes[MOST], start[MOST], rate[MOST], finish[MOST];
static uint32_t first[MOST + 1];
static int32_t link[MOST * ROUTE_LINKS];

static int refuse(const char *what)
{
    fprintf(stderr, "case: %s: %s\n", what, error_last());
    return 1;
}

static int read_flows(const struct fabric *f)
{
    int count = 0;
    struct route_flow *one = flow;
    while (count < MOST && scanf("%d %d %d %d %lf %lf", &one->from, &one->to, &one->lane, &one->lanes, &bytes[count],
                                 &start[count]) == 6) {
        if (one->from < 0 || one->to < 0 || one->from >= f->gpus || one->to >= f->gpus || one->lanes < 1)
            return -1;
        one->bytes = bytes[count++];
        one++;
    }
    return count;
}

static void print(const struct router *router, int count)
{
    for (int32_t l = 0; l < fabric_links(router->fabric); l++)
        if (router->load[l] > 0)
            printf("link %d %.17g\n", l, router->capacity[l]);
    for (int i = 0; i < count; i++) {
        printf("flow %.17g %.17g", finish[i], rate[i]);
        for (uint32_t l = first[i]; l < first[i + 1]; l++)
            printf(" %d", link[l]);
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    struct fabric f;
    struct router router;
    enum route_way way = ROUTE_ECMP;
    if (argc != 4)
        return fprintf(stderr, "usage: case FABRIC PATHS SEED <FLOWS\n"), 2;
    while (way < ROUTE_WAYS && strcmp(route_names[way], argv[2]) != 0)
        way++;
    if (way == ROUTE_WAYS || fabric_load(argv[1], &f) != TUTTI_SUCCESS)
        return refuse(argv[1]);
    int count = read_flows(&f);
    if (count <= 0 || router_open(&f, way, strtoull(argv[3], NULL, 10), &router) != TUTTI_SUCCESS)
        return refuse("flows");
    if (router_paths(&router, flow, count, first, link) >= 0)
        return refuse("a flow has no way");
    struct maxmin problem = {fabric_links(&f), count, router.capacity, first, link, NULL};
    if (maxmin_rates(&problem, rate) || maxmin_finish(&problem, bytes, start, 0, finish))
        return refuse("rates");
    print(&router, count);
    router_close(&router);
    fabric_free(&f);
    return 0;
}
