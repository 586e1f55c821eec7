/* SPDX-License-Identifier: Apache-2.0 */
/* The flags of tutti perf. */
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/perf_options.h"
#include "cli/perf_collectives.h"
#include "cli/perf_data.h"

#include "base/guess.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static int take_op(void *request, const char *text)
{
    struct perf_options *o = request;
    o->op = -1;
    for (int i = 0; i < OP_ROWS; i++)
        if (strcmp(op_names[i], text) == 0)
            o->op = i;
    return o->op >= 0 || strcmp(text, "all") == 0 ? OPTION_TAKEN : OPTION_REFUSED;
}

static int take_type(void *request, const char *text)
{
    struct perf_options *o = request;
    char word[32];
    o->type = -1;
    snprintf(word, sizeof word, " %s ", text);
    for (int i = 0; i < TUTTI_TYPE_COUNT; i++)
        if (strcmp(type_rows[i].name, text) == 0 || strstr(type_rows[i].aliases, word))
            o->type = i;
    return o->type >= 0 || strcmp(text, "all") == 0 ? OPTION_TAKEN : OPTION_REFUSED;
}

static int take_root(void *request, const char *text)
{
    struct perf_options *o = request;
    o->root = -1;
    return strcmp(text, "all") == 0 || text_int(text, 0, INT32_MAX, &o->root) ? OPTION_TAKEN : OPTION_REFUSED;
}

#define P struct perf_options
static const struct option_row rows[] = {
    {'b', "minbytes", "N", "smallest size (default 32M); K, M and G are powers of 1024", TO_SIZE(P, min, 0)},
    {'e', "maxbytes", "N", "largest size (default 32M)", TO_SIZE(P, max, 0)},
    {'i', "stepbytes", "N", "step between sizes (default 1M)", TO_SIZE(P, step, 1)},
    {'f', "stepfactor", "N", "factor between sizes, instead of a step", TO_INT(P, factor, 0, INT32_MAX)},
    {'n', "iters", "N", "timed iterations (default 20)", TO_INT(P, iterations, 1, INT32_MAX)},
    {'N', "run_cycles", "N", "all of it N times, with a row each time; 0: until it is ended (default 1)",
     TO_INT(P, cycles, 0, INT32_MAX)},
    {'w', "warmup_iters", "N", "iterations before the timed ones (default 5)", TO_INT(P, warmup, 0, INT32_MAX)},
    {'m', "agg_iters", "N", "operations in one group (default 1)", TO_INT(P, aggregate, 1, 100000)},
    {'c', "check", "N", "iterations whose results are verified (default 1; 0: none)", TO_INT(P, checks, 0, INT32_MAX)},
    {'o', "op", "OP", "operator (default sum)", .choices = "sum prod max min avg mulsum all", TO_CALL(take_op, NULL)},
    {'d', "datatype", "TYPE", "type of the elements (default float)",
     .choices = "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 all",
     TO_CALL(take_type, NULL)},
    {'r', "root", "N|all", "root of rooted collectives (default 0)",
     TO_CALL(take_root, "the number of a rank, or all")},
    {'z', "blocking", "0|1", "1: wait for each operation (latency); 0: wait once, at the end (default)",
     TO_INT(P, blocking, 0, 3)},
    {'t', "nthreads", "N", "threads of each process (default 1)", TO_INT(P, threads, 1, 1024)},
    {'g', "ngpus", "N", "ranks of each thread (default 1)", TO_INT(P, ranks, 1, 1024)},
    {0, "gpu", NULL, "buffers in the memory of GPUs: each rank takes the next one of its host", TO_FLAG(P, gpu)},
    {'G', "cudagraph", "N",
     "with --gpu: capture the timed iterations in a graph, replay it N times (default 0: no graph)",
     TO_INT(P, replays, 0, 100000)},
    {'p', "parallel_init", "0|1", "1: each thread makes its own communicators (default 0)",
     TO_INT(P, parallel_init, 0, 1)},
    {'a', "average", "0..3",
     "time of rank 0 (0), or the average (1, default), the least (2) or the greatest (3) over "
     "processes",
     TO_INT(P, average, 0, 3)},
    {'T', "timeout", "N", "give up, with exit status 1, when a size is not done after N seconds (default 0: never)",
     TO_INT(P, timeout, 0, INT32_MAX)},
    {'C', "report_cputime", "0|1", "1: time of the calls alone, without waiting for the end (default 0)",
     TO_INT(P, calls_only, 0, 1)},
    {'R', "local_register", "0|1|2",
     "1: buffers of tutti_mem_alloc, registered; 2: by all ranks together, as symmetric "
     "memory (default 0)",
     TO_INT(P, registered, 0, 2)},
    {0, "rotate", "0|1", "1: move through the largest buffer from call to call, as nccl-tests does (default 0)",
     TO_INT(P, rotate, 0, 1)},
    {0, "np", "N",
     "start N processes of this measurement on this host, each on its own processor where there are "
     "enough",
     TO_INT(P, processes, 1, 4096)},
    {'J', "json", "FILE", "write the results as JSON too", TO_TEXT(P, json)},
};
#undef P

static void offer_collectives(int place, char **all)
{
    (void)all;
    for (int i = 0; !place && i < collective_count; i++)
        options_offer(collectives[i].name, "");
}

static const struct options options_of_perf = {
    .command = "perf",
    .usage = "COLLECTIVE [OPTION...]",
    .before =
        "Measures a collective over sizes and verifies every element. Run it under tutti run, mpirun or torchrun, "
        "or let it start the ranks:\n"
        "  tutti perf allreduce -np 4 -b 8 -e 64M -f 2     4 processes\n"
        "  tutti perf allreduce -t 4 -b 8 -e 64M -f 2      4 threads of one process\n"
        "  tutti perf allreduce -g 4 -b 8 -e 64M -f 2      4 ranks of one thread\n"
        "  tutti perf allreduce -np 4 --gpu -b 8 -e 1G -f 2  4 processes, each with a GPU\n"
        "Collectives: allreduce allgather reduce_scatter alltoall alltoallv broadcast reduce gather scatter scan "
        "sendrecv barrier, and their names in nccl-tests: all_reduce, all_reduce_perf. A barrier has one row: it "
        "carries nothing.",
    .after = "Columns are nccl-tests': algbw is size / time; busbw is algbw times 2(n-1)/n for allreduce, (n-1)/n for "
             "collectives of n parts, else 1.\n"
             "Exit status: 0 measured and right, 1 an element is wrong or the measurement failed, 2 wrong options. "
             "With -np it is that of the first process that failed.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
    .words = offer_collectives,
};

static int find_collective(int argc, char **argv, struct perf_options *options)
{
    const char *names[64];
    if (optind + 1 != argc)
        return usage_error("perf", optind == argc ? "which collective?" : "one collective at a time, please");
    options->collective = collective_find(argv[optind]);
    if (options->collective)
        return -1;
    for (int i = 0; i < collective_count; i++)
        names[i] = collectives[i].name;
    const char *near = guess_name(argv[optind], names, (size_t)collective_count);
    if (near)
        return usage_error("perf", "there is no collective \"%s\". Did you mean %s?", argv[optind], near);
    return usage_error("perf", "there is no collective \"%s\"", argv[optind]);
}

/* Makes one row for any sizes, types, operators and roots: one command line fits all collectives. */
static void carry_nothing(struct perf_options *options)
{
    options->min = options->max = 0;
    options->type = TUTTI_UINT8;
    options->registered = 0;
}

int perf_parse(int argc, char **argv, struct perf_options *options)
{
    *options = (struct perf_options){.min = 32 << 20,
                                     .max = 32 << 20,
                                     .step = 1 << 20,
                                     .iterations = 20,
                                     .cycles = 1,
                                     .warmup = 5,
                                     .checks = 1,
                                     .threads = 1,
                                     .ranks = 1,
                                     .average = 1,
                                     .aggregate = 1,
                                     .op = TUTTI_SUM,
                                     .type = TUTTI_FLOAT32};
    int code = options_parse(&options_of_perf, argc, argv, options);
    if (code >= 0)
        return code;
    if (options->max < options->min)
        return usage_error("perf", "-e %lld is below -b %lld", (long long)options->max, (long long)options->min);
    if (options->replays && !options->gpu)
        return usage_error("perf", "-G captures what runs on GPUs: give --gpu too");
    if (options->replays && options->blocking)
        return usage_error("perf", "-G and -z exclude each other: nothing in a graph can be waited for");
    if (options->replays && options->calls_only)
        return usage_error("perf", "-G and -C exclude each other: a replayed graph calls nothing");
    code = find_collective(argc, argv, options);
    if (code < 0 && options->collective->meets)
        carry_nothing(options);
    if (code < 0 && options->collective->no_average && options->op == TUTTI_AVG)
        return usage_error("perf", "%s has no average", options->collective->name);
    if (code < 0 && options->collective->no_average && options->gpu)
        return usage_error("perf", "%s is not built for GPUs", options->collective->name);
    return code;
}
