/* SPDX-License-Identifier: Apache-2.0 */
/* Points of a comparison: each is warmed up, repeated, and its median and mean time printed, the greatest over the
 * ranks. */
#include "bench.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WARMUP = 5, LEAST = 7, MOST = 2000, LARGEST = 64 << 20, SIZES = 64 };

struct bench_point {
    const struct bench_library *library;
    float *send, *recv;
    size_t count, part;
};

struct bench_kind {
    const char *name;
    bool parts;   /* the vector is cut into a part for each rank */
    double share; /* of the measured time that is one operation */
    void (*run)(const struct bench_point *point);
    float (*expected)(
        const struct bench_point *point); /* of the first and last element, when all inputs are 1; NULL: 1 */
};

static void allreduce(const struct bench_point *p)
{
    p->library->allreduce(p->send, p->recv, p->count);
}

static void allgather(const struct bench_point *p)
{
    p->library->allgather(p->send, p->recv, p->part);
}

static void reduce_scatter(const struct bench_point *p)
{
    p->library->reduce_scatter(p->send, p->recv, p->part);
}

static void alltoall(const struct bench_point *p)
{
    p->library->alltoall(p->send, p->recv, p->part);
}

static void pingpong(const struct bench_point *p)
{
    int peer = p->library->rank ^ 1;
    if (peer < p->library->size)
        p->library->pingpong(p->send, p->recv, p->count, peer);
}

static void exchange(const struct bench_point *p)
{
    int rank = p->library->rank, size = p->library->size;
    p->library->exchange(p->send, p->recv, p->count, (rank + 1) % size, (rank + size - 1) % size);
}

static float size_of(const struct bench_point *point)
{
    return (float)point->library->size;
}

static const struct bench_kind kinds[] = {
    {"allreduce", false, 1, allreduce, size_of},
    {"allgather", true, 1, allgather, NULL},
    {"reduce_scatter", true, 1, reduce_scatter, size_of},
    {"alltoall", true, 1, alltoall, NULL},
    {"pingpong", false, 0.5, pingpong, NULL},
    {"sendrecv", false, 1, exchange, NULL},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* As many iterations as the budget allows, the same number on all ranks. */
static int warm_up(const struct bench_point *point, const struct bench_kind *kind, double budget)
{
    kind->run(point);
    point->library->barrier();
    double start = now();
    for (int i = 0; i < WARMUP; i++)
        kind->run(point);
    double each = point->library->maximum((now() - start) / WARMUP), fit = each > 0 ? budget / each : MOST;
    return fit < LEAST ? LEAST : fit > MOST ? MOST : (int)fit;
}

static bool result_is_right(const struct bench_point *point, const struct bench_kind *kind)
{
    size_t received = kind->run == reduce_scatter ? point->part : point->count;
    float want = kind->expected ? kind->expected(point) : 1;
    if (kind->run == pingpong && (point->library->rank ^ 1) >= point->library->size)
        return true;
    return point->recv[0] == want && point->recv[received - 1] == want;
}

static void print(const struct bench_point *point, const struct bench_kind *kind, int iterations, double median,
                  double mean, double least)
{
    if (point->library->rank != 0)
        return;
    printf("{\"library\": \"%s\", \"collective\": \"%s\", \"ranks\": %d, \"bytes\": %zu, \"iterations\": %d, "
           "\"median_us\": %.4f, "
           "\"mean_us\": %.4f, \"min_us\": %.4f}\n",
           point->library->name, kind->name, point->library->size, point->count * sizeof(float), iterations,
           median * kind->share * 1e6, mean * kind->share * 1e6, least * kind->share * 1e6);
    fflush(stdout);
}

/* False: the result is wrong. */
static bool measure(struct bench_point *point, const struct bench_kind *kind, double budget)
{
    static double times[MOST];
    const struct bench_library *library = point->library;
    memset(point->recv, 0, point->count * sizeof(float));
    int iterations = warm_up(point, kind, budget);
    library->barrier();
    double start = now(), last = start;
    for (int i = 0; i < iterations; i++) {
        kind->run(point);
        double end = now();
        times[i] = end - last;
        last = end;
    }
    qsort(times, (size_t)iterations, sizeof *times, ascending);
    double median = library->maximum(times[iterations / 2]), mean = library->maximum((last - start) / iterations);
    print(point, kind, iterations, median, mean, library->maximum(times[0]));
    return result_is_right(point, kind);
}

static bool listed(const char *list, const char *word)
{
    size_t length = strlen(word);
    if (!list)
        return true;
    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ',') && (at[length] == ',' || !at[length]))
            return true;
    return false;
}

static int parse_sizes(const char *text, size_t sizes[SIZES])
{
    int count = 0;
    char *end;
    for (; *text && count < SIZES; text = *end == ',' ? end + 1 : end) {
        sizes[count] = strtoull(text, &end, 10);
        if (end == text || sizes[count] == 0 || sizes[count] > LARGEST)
            return 0;
        count++;
    }
    return count;
}

static int run(struct bench_point *point, const char *names, const size_t *sizes, int count, double budget)
{
    int wrong = 0;
    for (int k = 0; k < KINDS; k++)
        for (int s = 0; s < count; s++) {
            size_t floats = sizes[s] / sizeof(float), size = (size_t)point->library->size;
            point->part = floats / size;
            point->count = kinds[k].parts ? point->part * size : floats;
            if (!listed(names, kinds[k].name) || point->count == 0 || measure(point, &kinds[k], budget))
                continue;
            fprintf(stderr, "%s: rank %d: %s of %zu bytes gave a wrong result\n", point->library->name,
                    point->library->rank, kinds[k].name, sizes[s]);
            wrong = 1;
        }
    return wrong;
}

int bench_main(int argc, char **argv, const struct bench_library *library)
{
    const char *names = NULL, *list = "8,64,512,4096,32768,262144,2097152,16777216,67108864";
    double budget = 0.5;
    size_t sizes[SIZES];
    for (int i = 1; i + 1 < argc; i += 2)
        if (strcmp(argv[i], "--collectives") == 0)
            names = argv[i + 1];
        else if (strcmp(argv[i], "--sizes") == 0)
            list = argv[i + 1];
        else if (strcmp(argv[i], "--budget") == 0)
            budget = strtod(argv[i + 1], NULL);
    int count = parse_sizes(list, sizes), code = 2;
    struct bench_point point = {.library = library, .send = malloc(LARGEST), .recv = malloc(LARGEST)};
    if (!point.send || !point.recv || !count) {
        fprintf(stderr, "%s: out of memory, or sizes that are not numbers up to %d: %s\n", library->name, LARGEST,
                list);
    } else {
        for (size_t i = 0; i < LARGEST / sizeof(float); i++)
            point.send[i] = 1;
        memset(point.recv, 0, LARGEST);
        code = run(&point, names, sizes, count, budget);
    }
    free(point.send);
    free(point.recv);
    return code;
}
