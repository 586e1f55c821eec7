/* SPDX-License-Identifier: Apache-2.0 */
/* Loops over everything that is compared. */
#include "simulate/study.h"
#include "algorithm/algorithm.h"
#include "base/error.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const study_orders[STUDY_ORDERS] = {"nearest", "farthest", "hybrid"};

static int bits_of(int n)
{
    int bits = 0;
    while (1 << bits < n)
        bits++;
    return bits;
}

static bool power_of_two(int n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

static unsigned reverse(unsigned value, int bits)
{
    unsigned out = 0;
    for (int b = 0; b < bits; b++)
        out |= (value >> b & 1) << (bits - 1 - b);
    return out;
}

static unsigned rotate(unsigned value, int by, int bits)
{
    return (value << by | value >> (bits - by)) & ((1u << bits) - 1);
}

/* Ranks meet over one bit of their number each round: upwards from the lowest (natural order nearest), or downwards
 * from the highest. */
bool study_arrange(enum study_order order, enum study_order natural, const int32_t *place, int nranks, int near,
                   int32_t *out)
{
    int bits = bits_of(nranks), low = bits_of(near);
    if (order != natural && (!power_of_two(nranks) || !power_of_two(near) || near > nranks))
        return false;
    for (int rank = 0; rank < nranks; rank++) {
        unsigned r = (unsigned)rank, seat = r;
        if (order == STUDY_HYBRID && natural == STUDY_NEAREST)
            seat = (r & ((1u << low) - 1)) | reverse(r >> low, bits - low) << low;
        else if (order == STUDY_HYBRID)
            seat = low && low < bits ? rotate(r, low, bits) : r;
        else if (order != natural)
            seat = reverse(r, bits);
        out[rank] = place[seat];
    }
    return true;
}

/* Orders ranks by itself, by the hosts that they are on. */
static bool orders_itself(const struct algorithm *algorithm)
{
    return algorithm->flags & ALGORITHM_LEVELS;
}

/* The order that an algorithm has by itself: the peers that rank 0 meets first. STUDY_ORDERS: its order is not one of
 * distances. */
static enum study_order natural_order(const struct algorithm *algorithm, const struct shape *shape)
{
    struct action *actions = calloc((size_t)algorithm->actions(shape) + 1, sizeof *actions);
    enum study_order order = STUDY_ORDERS;
    if (!actions || algorithm->rounds(shape) < 3 || algorithm->rounds(shape) > 2 * bits_of(shape->nranks) + 2 ||
        (orders_itself(algorithm) && !(algorithm->flags & ALGORITHM_POWER_OF_TWO)))
        order = STUDY_ORDERS;
    else
        for (int round = 0, count; round < algorithm->rounds(shape) && order == STUDY_ORDERS; round++) {
            count = schedule_round(algorithm, shape, 0, round, actions);
            for (int i = 0; i < count && order == STUDY_ORDERS; i++)
                if (actions[i].kind != ACTION_COPY && actions[i].kind != ACTION_REDUCE)
                    order = actions[i].peer > shape->nranks / 4 ? STUDY_FARTHEST : STUDY_NEAREST;
        }
    free(actions);
    return order;
}

static bool named(const char *names, const char *name)
{
    size_t length;
    for (; names && *names; names += length + (names[length] == ',')) {
        length = strcspn(names, ",");
        if (schedule_same_name(name, names, length))
            return true;
    }
    return !names;
}

/* Takes uplinks down, drawn without order, in the caller's copy. */
static void draw_failures(struct fabric *fabric, const struct fabric_uplink *whole, int failures, uint64_t seed)
{
    memcpy(fabric->uplink, whole, (size_t)fabric->uplinks * sizeof *whole);
    for (int done = 0, tries = 0; done < failures && tries < 64 * failures; tries++) {
        int32_t u = (int32_t)(mix64(seed + (uint64_t)tries * 0x9e3779b97f4a7c15ull) % (uint64_t)fabric->uplinks);
        done += !fabric->uplink[u].down;
        fabric->uplink[u].down = true;
    }
}

static void note_times(struct study_row *row, enum route_way way, const struct price *price,
                       const struct study_request *request, int draw)
{
    for (int k = 0; k < request->sizes; k++) {
        struct study_time *time = &row->time[way][k];
        double seconds = price_seconds(price, request->fabric, &request->model, request->bytes[k]);
        time->least = draw == 0 || seconds < time->least ? seconds : time->least;
        time->most = draw == 0 || seconds > time->most ? seconds : time->most;
        time->mean += (seconds - time->mean) / (draw + 1);
    }
    row->done[way] = true;
    row->rounds = price->rounds;
    row->priced = price->count;
    row->far = price->far;
    if (draw == 0 && price->busiest >= 0)
        fabric_link_name(request->fabric, price->busiest, row->busiest[way], sizeof row->busiest[way]);
}

static tutti_result_t price_draw(const struct study_request *request, const struct fabric *fabric,
                                 const struct shape *shape, const int32_t *place, enum route_way way, int draw,
                                 struct study_row *row)
{
    struct router router;
    struct price *price = malloc(sizeof *price);
    tutti_result_t result = router_open(fabric, way, mix64(request->seed + (uint64_t)draw), &router);
    if (!result && !price)
        result = error_note(TUTTI_SYSTEM_ERROR, "out of memory");
    if (!result)
        result = price_make(row->algorithm, shape, place, &router, &request->model, price);
    if (!result)
        note_times(row, way, price, request, draw);
    router_close(&router);
    free(price);
    return result;
}

/* Without failures only ECMP depends on chance. */
static int draws_of(const struct study_request *request, enum route_way way)
{
    return way == ROUTE_ECMP || request->failures ? request->draws : 1;
}

static tutti_result_t price_row(const struct study_request *request, struct fabric *fabric,
                                const struct fabric_uplink *whole, const struct shape *shape, const int32_t *place,
                                struct study_row *row)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (enum route_way way = 0; way < ROUTE_WAYS && !result; way++) {
        if (!(request->ways >> way & 1))
            continue;
        for (int draw = 0; draw < draws_of(request, way) && !result; draw++) {
            if (request->failures && fabric->uplinks)
                draw_failures(fabric, whole, request->failures, mix64(request->seed ^ (uint64_t)draw << 32));
            result = price_draw(request, fabric, shape, place, way, draw, row);
        }
    }
    if (result == TUTTI_INVALID_ARGUMENT) { /* this one cannot; others may */
        memset(row->done, 0, sizeof row->done);
        snprintf(row->why, sizeof row->why, "%s", error_last());
        return TUTTI_SUCCESS;
    }
    return result;
}

static tutti_result_t price_orders(const struct study_request *request, struct fabric *fabric,
                                   const struct fabric_uplink *whole, const struct shape *shape,
                                   const struct algorithm *algorithm, struct study *out)
{
    int near = fabric->host[fabric->gpu_host[request->place[0]]].gpus;
    int32_t *place = malloc((size_t)shape->nranks * sizeof *place);
    enum study_order natural = natural_order(algorithm, shape);
    tutti_result_t result =
        place ? TUTTI_SUCCESS : error_note(TUTTI_SYSTEM_ERROR, "no memory for %d ranks", shape->nranks);
    for (int order = 0; order < STUDY_ORDERS && !result && out->count < STUDY_ROWS; order++) {
        bool one = natural == STUDY_ORDERS || !power_of_two(shape->nranks) || orders_itself(algorithm);
        if (one ? order != 0 : !(request->orders >> order & 1))
            continue;
        struct study_row *row = &out->row[out->count];
        *row = (struct study_row){.algorithm = algorithm, .order = one ? natural : (enum study_order)order};
        row->own = row->order == natural;
        if (!study_arrange(row->order, natural, request->place, shape->nranks, near, place))
            continue;
        out->count++;
        result = price_row(request, fabric, whole, shape, place, row);
    }
    free(place);
    return result;
}

static tutti_result_t hosts_of(const struct study_request *request, struct levels **out)
{
    uint64_t *host = malloc((size_t)request->nranks * sizeof *host);
    if (!host)
        return error_note(TUTTI_SYSTEM_ERROR, "no memory for %d ranks", request->nranks);
    for (int rank = 0; rank < request->nranks; rank++)
        host[rank] = (uint64_t)request->fabric->gpu_host[request->place[rank]];
    tutti_result_t result = levels_of_hosts(host, request->nranks, out);
    free(host);
    return result;
}

/* Gives the hosts to algorithms that know them; to the others ranks are as they are placed. */
static tutti_result_t price_all(const struct study_request *request, struct fabric *fabric,
                                const struct fabric_uplink *whole, struct study *out)
{
    struct levels *levels = NULL;
    tutti_result_t result = hosts_of(request, &levels);
    for (int i = 0; i < algorithm_count() && !result; i++) {
        const struct algorithm *algorithm = algorithm_row(i);
        struct shape shape = {.coll = request->coll, .nranks = request->nranks};
        if (orders_itself(algorithm))
            shape.levels = levels;
        if (!schedule_in_set(request->coll, algorithm->colls) || (algorithm->flags & ALGORITHM_GPU) ||
            !named(request->algorithms, algorithm->name) || !schedule_fits(algorithm, &shape))
            continue;
        result = price_orders(request, fabric, whole, &shape, algorithm, out);
    }
    free(levels);
    return result;
}

tutti_result_t study_make(const struct study_request *request, struct study *out)
{
    struct fabric fabric = *request->fabric; /* with uplinks of its own, of which some fail */
    size_t bytes = ((size_t)fabric.uplinks + 1) * sizeof *fabric.uplink;
    out->count = 0;
    fabric.uplink = malloc(bytes);
    if (!fabric.uplink)
        return error_note(TUTTI_SYSTEM_ERROR, "no memory for %d uplinks", fabric.uplinks);
    memcpy(fabric.uplink, request->fabric->uplink, bytes - sizeof *fabric.uplink);
    tutti_result_t result = price_all(request, &fabric, request->fabric->uplink, out);
    free(fabric.uplink);
    return result;
}

int study_best(const struct study *study, enum route_way way, int size)
{
    int best = -1;
    for (int i = 0; i < study->count; i++)
        if (study->row[i].done[way] &&
            (best < 0 || study->row[i].time[way][size].mean < study->row[best].time[way][size].mean))
            best = i;
    return best;
}
