/* SPDX-License-Identifier: Apache-2.0 */
/* Prices of schedules on a fabric, against closed forms and against what NCCLX found about orders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "algorithm/algorithm.h"
#include "simulate/placement.h"
#include "simulate/study.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEAR(a, b, part) assert_true(fabs((a) - (b)) <= (part)*fabs(b))

static const struct fabric_clos flat = {.buildings = 1,
                                        .zones = 1,
                                        .racks = 1,
                                        .hosts = 256,
                                        .gpus = 1,
                                        .nics = 1,
                                        .ports = 1,
                                        .spines = 1,
                                        .uplinks = 1,
                                        .rate = 1e9,
                                        .uplink = 1e9,
                                        .core = 1e9,
                                        .trunk = INFINITY};
/* 4 racks of 8 hosts of 4 GPUs; leaves have 1/4 of the uplinks that their NICs would fill. */
static const struct fabric_clos tapered = {.buildings = 1,
                                           .zones = 1,
                                           .racks = 4,
                                           .hosts = 8,
                                           .gpus = 4,
                                           .nics = 4,
                                           .ports = 1,
                                           .spines = 4,
                                           .uplinks = 2,
                                           .rate = 1e9,
                                           .uplink = 1e9,
                                           .core = 1e9,
                                           .trunk = INFINITY};

static const struct price_model model = {.slice = 512 << 10, .slices = 4, .lanes = 1};

static void make(const struct fabric_clos *clos, struct fabric *out)
{
    *out = (struct fabric){.latency = {1e-6, 5e-6, 35e-6, 75e-6, 150e-6}, .gpu_rate = 10e9};
    assert_int_equal(fabric_from_clos(clos, out), TUTTI_SUCCESS);
}

static int32_t *in_order(int n)
{
    int32_t *place = malloc((size_t)n * sizeof *place);
    for (int i = 0; i < n; i++)
        place[i] = i;
    return place;
}

static double seconds_of(const struct fabric *f, enum coll coll, const char *name, int n, double bytes,
                         struct price *price)
{
    struct shape shape = {.coll = coll, .nranks = n};
    struct router router;
    int32_t *place = in_order(n);
    assert_int_equal(router_open(f, ROUTE_ALLOCATED, 1, &router), TUTTI_SUCCESS);
    assert_int_equal(price_make(algorithm_find(coll, name, strlen(name)), &shape, place, &router, &model, price),
                     TUTTI_SUCCESS);
    router_close(&router);
    free(place);
    return price_seconds(price, f, &model, bytes);
}

/* Each rank is alone at its port: a round is a latency and the bytes at the port's rate. Rounds are sampled from 65
 * on. */
static void test_closed_forms(void **state)
{
    struct fabric f;
    struct price *price = malloc(sizeof *price);
    make(&flat, &f);
    for (int n = 4; n <= 256; n *= 4) {
        double turns = 2 * (n - 1.0), one = 64 << 10, each = one / n / 1e9;
        NEAR(seconds_of(&f, COLL_ALLREDUCE, "ring", n, one, price), turns * (5e-6 + each), 1e-6);
        assert_true(price->rounds == turns && price->count <= PATTERN_ROUNDS);
        NEAR(seconds_of(&f, COLL_ALLTOALL, "pairwise", n, one, price), (n - 1) * (5e-6 + each), 1e-6);
        int bits = (int)log2(n);
        NEAR(seconds_of(&f, COLL_ALLREDUCE, "doubling", n, one, price), bits * (5e-6 + one / 1e9), 1e-6);
        NEAR(seconds_of(&f, COLL_BROADCAST, "ring", n, one, price), (n - 1) * (5e-6 + one / 1e9), 1e-6);
    }
    /* a slice has a block of that size for each rank: the vector is one slice */
    struct price_model fine = model;
    double whole = 1 << 20;
    fine.slice = 64 << 10;
    seconds_of(&f, COLL_ALLREDUCE, "ring", 256, whole, price);
    NEAR(price_seconds(price, &f, &fine, whole), 510 * (5e-6 + whole / 256 / 1e9), 1e-6);
    /* in slices: the first one as above, the others keep a port busy, or wait for those in flight */
    double bytes = 16 * (512 << 10), slice = 512 << 10, first = 255 * (5e-6 + slice / 1e9);
    double next = fmax(slice / 1e9, first / 4);
    NEAR(seconds_of(&f, COLL_BROADCAST, "ring", 256, bytes, price), first + 15 * next, 1e-6);
    free(price);
    fabric_free(&f);
}

static struct study *study_of(const struct fabric *f, enum coll coll, int n, const char *algorithms, double bytes,
                              int failures)
{
    struct study *study = malloc(sizeof *study);
    struct study_request request = {.fabric = f,
                                    .coll = coll,
                                    .nranks = n,
                                    .place = in_order(n),
                                    .algorithms = algorithms,
                                    .orders = 7,
                                    .ways = 7,
                                    .model = model,
                                    .draws = 3,
                                    .failures = failures,
                                    .seed = 1,
                                    .sizes = 1,
                                    .bytes = {bytes}};
    request.model.lanes = 2;
    assert_int_equal(study_make(&request, study), TUTTI_SUCCESS);
    free((void *)request.place);
    return study;
}

static const struct study_row *row_of(const struct study *study, const char *name, enum study_order order)
{
    for (int i = 0; i < study->count; i++)
        if (strcmp(study->row[i].algorithm->name, name) == 0 && study->row[i].order == order)
            return &study->row[i];
    fail_msg("no row %s", name);
    return NULL;
}

/* NCCLX section 5.4: an allgather by doubling has most bytes in its last rounds, which should be near. */
static void test_farthest_first_wins_where_uplinks_are_few(void **state)
{
    struct fabric f;
    make(&tapered, &f);
    struct study *study = study_of(&f, COLL_ALLGATHER, 128, "doubling", 16 << 20, 0);
    const struct study_row *near = row_of(study, "doubling", STUDY_NEAREST);
    const struct study_row *far = row_of(study, "doubling", STUDY_FARTHEST);
    for (int way = 0; way < ROUTE_WAYS; way++)
        assert_true(far->time[way][0].mean < 0.7 * near->time[way][0].mean);
    assert_true(near->own && !far->own && near->far == far->far);
    struct study *own = study_of(&f, COLL_ALLGATHER, 128, "doubling,far-doubling", 16 << 20, 0);
    const struct study_row *row = row_of(own, "far-doubling", STUDY_FARTHEST);
    assert_true(row->own && row->time[ROUTE_ALLOCATED][0].mean < 1.001 * far->time[ROUTE_ALLOCATED][0].mean);
    free(own);
    own = study_of(&f, COLL_REDUCE_SCATTER, 128, "halving,far-halving", 16 << 20, 0);
    row = row_of(own, "far-halving", STUDY_NEAREST);
    near = row_of(own, "halving", STUDY_FARTHEST);
    assert_true(row->own && near->own && row->time[ROUTE_ECMP][0].mean < 0.7 * near->time[ROUTE_ECMP][0].mean);
    assert_int_equal(own->row[study_best(own, ROUTE_ECMP, 0)].order, STUDY_NEAREST);
    free(own);
    free(study);
    fabric_free(&f);
}

static void test_a_master_is_no_worse_than_chance(void **state)
{
    struct fabric f;
    make(&tapered, &f);
    for (int failures = 0; failures <= 4; failures += 4) {
        struct study *study = study_of(&f, COLL_ALLREDUCE, 128, NULL, 1 << 20, failures);
        assert_true(study->count > 5);
        for (int i = 0; i < study->count; i++) {
            const struct study_time *time[ROUTE_WAYS];
            for (int way = 0; way < ROUTE_WAYS; way++)
                time[way] = study->row[i].time[way];
            assert_true(study->row[i].done[ROUTE_ALLOCATED]);
            assert_true(time[ROUTE_ALLOCATED]->mean <= time[ROUTE_ECMP]->mean * 1.01);
            assert_true(time[ROUTE_ECMP]->least <= time[ROUTE_ECMP]->mean);
        }
        int best = study_best(study, ROUTE_ECMP, 0);
        assert_true(best >= 0 && study->row[best].time[ROUTE_ECMP][0].mean > 0);
        free(study);
    }
    fabric_free(&f);
}

/* An algorithm that no order fits says so, and is no failure. */
static void test_reasons(void **state)
{
    struct fabric f;
    make(&tapered, &f);
    for (int32_t u = f.leaf[1].first; u < f.leaf[1].first + f.leaf[1].count; u++)
        f.uplink[u].down = true;
    struct study *study = study_of(&f, COLL_ALLREDUCE, 128, "ring,tree", 1 << 20, 0);
    assert_true(study->count >= 2 && study_best(study, ROUTE_ECMP, 0) == -1);
    assert_non_null(strstr(study->row[0].why, "no way leads from host h"));
    free(study);
    fabric_free(&f);
}

static void test_orders_are_permutations(void **state)
{
    int32_t *place = in_order(64), out[64];
    for (enum study_order order = 0; order < STUDY_ORDERS; order++)
        for (enum study_order natural = 0; natural < STUDY_HYBRID; natural++) {
            uint64_t seen = 0;
            assert_true(study_arrange(order, natural, place, 64, 8, out));
            for (int i = 0; i < 64; i++)
                seen |= 1ull << out[i];
            assert_true(seen == UINT64_MAX);
        }
    assert_true(study_arrange(STUDY_FARTHEST, STUDY_NEAREST, place, 64, 8, out) && out[1] == 32);
    assert_true(study_arrange(STUDY_HYBRID, STUDY_NEAREST, place, 64, 8, out) && out[1] == 1 && out[8] == 32);
    assert_true(study_arrange(STUDY_HYBRID, STUDY_FARTHEST, place, 64, 8, out) && out[32] == 4 && out[4] == 32);
    assert_false(study_arrange(STUDY_FARTHEST, STUDY_NEAREST, place, 48, 8, out));
    free(place);
}

static void test_sorting_hosts(void **state)
{
    struct fabric f;
    int before[FABRIC_DISTANCES], after[FABRIC_DISTANCES];
    int32_t host[] = {0, 9, 1, 25, 10, 2, 24, 11};
    make(&tapered, &f);
    placement_pairs(&f, host, 8, before);
    assert_int_equal(placement_sort(&f, host, 8), TUTTI_SUCCESS);
    placement_pairs(&f, host, 8, after);
    const int32_t sorted[] = {0, 1, 2, 9, 10, 11, 25, 24};
    assert_memory_equal(host, sorted, sizeof sorted);
    assert_int_equal(placement_crossings(before), 8);
    assert_int_equal(placement_crossings(after), 3);
    fabric_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed_forms),
        cmocka_unit_test(test_farthest_first_wins_where_uplinks_are_few),
        cmocka_unit_test(test_a_master_is_no_worse_than_chance),
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_orders_are_permutations),
        cmocka_unit_test(test_sorting_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
