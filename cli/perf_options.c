/* SPDX-License-Identifier: Apache-2.0 */
/* The flags of tutti perf. */
#include "cli.h"
#include "perf.h"

#include "base/parse.h"

#include <getopt.h>
#include <string.h>

static const char help[] = "Usage: tutti perf COLLECTIVE [OPTIONS]\n"
                           "Measures a collective over sizes and verifies every element. Run it under tutti\n"
                           "run, mpirun or torchrun, or alone:\n"
                           "  tutti perf allreduce -np 4 -b 8 -e 64M -f 2     starts 4 processes\n"
                           "  tutti perf allreduce -t 4 -b 8 -e 64M -f 2      4 threads of one process\n"
                           "  tutti perf allreduce -g 4 -b 8 -e 64M -f 2      4 ranks of one thread\n"
                           "  tutti perf allreduce -np 4 --gpu -b 8 -e 1G -f 2  4 processes, each with a GPU\n"
                           "Collectives: allreduce allgather reduce_scatter alltoall alltoallv broadcast\n"
                           "reduce gather scatter scan sendrecv barrier, and their names in nccl-tests:\n"
                           "all_reduce, all_reduce_perf. A barrier has one row: it carries nothing.\n"
                           "\n"
                           "  -b, --minbytes N        smallest size (default 32M); K, M and G are powers of\n"
                           "                          1024\n"
                           "  -e, --maxbytes N        largest size (default 32M)\n"
                           "  -i, --stepbytes N       step between sizes (default 1M)\n"
                           "  -f, --stepfactor N      factor between sizes, instead of a step\n"
                           "  -n, --iters N           timed iterations (default 20)\n"
                           "  -N, --run_cycles N      all of it N times, with a row each time; 0: without an end\n"
                           "                          (default 1)\n"
                           "  -w, --warmup_iters N    iterations before them (default 5)\n"
                           "  -m, --agg_iters N       operations in one group (default 1)\n"
                           "  -c, --check N           verified iterations (default 1; 0: none)\n"
                           "  -o, --op OP             sum prod max min avg mulsum all (default sum)\n"
                           "  -d, --datatype TYPE     int8 uint8 int32 uint32 int64 uint64 half float double\n"
                           "                          bfloat16 f8e4m3 f8e5m2 all (default float)\n"
                           "  -r, --root N|all        root of rooted collectives (default 0)\n"
                           "  -z, --blocking 0|1      1: wait for each operation (latency); 0: wait once\n"
                           "                          (default)\n"
                           "  -t, --nthreads N        threads of each process (default 1)\n"
                           "  -g, --ngpus N           ranks of each thread (default 1)\n"
                           "      --gpu               buffers in the memory of GPUs: each rank takes the\n"
                           "                          next one of its host\n"
                           "  -G, --cudagraph N       with --gpu: capture the timed iterations in a graph,\n"
                           "                          replay it N times (default 0)\n"
                           "  -p, --parallel_init 0|1  1: each thread makes its own communicators (default 0)\n"
                           "  -a, --average 0..3      time of rank 0, average, least, greatest over\n"
                           "                          processes (default 1)\n"
                           "  -T, --timeout N         give up, with exit status 1, when a size is not done\n"
                           "                          after N seconds (default 0: never)\n"
                           "  -C, --report_cputime 0|1\n"
                           "                          1: time of the calls alone, without waiting for the\n"
                           "                          end (default 0)\n"
                           "  -R, --local_register 0|1|2\n"
                           "                          1: buffers of tutti_mem_alloc, registered; 2: by all\n"
                           "                          ranks together, as symmetric memory (default 0)\n"
                           "      --rotate 0|1        1: move through the largest buffer from call to call,\n"
                           "                          as nccl-tests does (default 0)\n"
                           "      --np N, -np N       start N processes of this measurement on this host,\n"
                           "                          each on its own processor where there are enough\n"
                           "  -J, --json FILE         write the results as JSON too\n"
                           "  -h, --help              this text\n"
                           "\n"
                           "Columns are nccl-tests': algbw is size / time; busbw is algbw times 2(n-1)/n for\n"
                           "allreduce, (n-1)/n for collectives of n parts, else 1. Exit status 1 when an\n"
                           "element is wrong.\n";

enum { OPTION_NP = 256, OPTION_ROTATE, OPTION_GPU };

static const struct option long_options[] = {
    {"minbytes", required_argument, NULL, 'b'},
    {"maxbytes", required_argument, NULL, 'e'},
    {"stepbytes", required_argument, NULL, 'i'},
    {"stepfactor", required_argument, NULL, 'f'},
    {"iters", required_argument, NULL, 'n'},
    {"run_cycles", required_argument, NULL, 'N'},
    {"warmup_iters", required_argument, NULL, 'w'},
    {"agg_iters", required_argument, NULL, 'm'},
    {"check", required_argument, NULL, 'c'},
    {"op", required_argument, NULL, 'o'},
    {"datatype", required_argument, NULL, 'd'},
    {"root", required_argument, NULL, 'r'},
    {"blocking", required_argument, NULL, 'z'},
    {"nthreads", required_argument, NULL, 't'},
    {"ngpus", required_argument, NULL, 'g'},
    {"gpu", no_argument, NULL, OPTION_GPU},
    {"cudagraph", required_argument, NULL, 'G'},
    {"parallel_init", required_argument, NULL, 'p'},
    {"average", required_argument, NULL, 'a'},
    {"timeout", required_argument, NULL, 'T'},
    {"report_cputime", required_argument, NULL, 'C'},
    {"local_register", required_argument, NULL, 'R'},
    {"rotate", required_argument, NULL, OPTION_ROTATE},
    {"np", required_argument, NULL, OPTION_NP},
    {"json", required_argument, NULL, 'J'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static bool op_by_name(const char *name, int *out)
{
    *out = -1;
    for (int i = 0; i < OP_ROWS; i++)
        if (strcmp(op_names[i], name) == 0)
            *out = i;
    return *out >= 0 || strcmp(name, "all") == 0;
}

static bool type_by_name(const char *name, int *out)
{
    char word[32];
    *out = -1;
    snprintf(word, sizeof word, " %s ", name);
    for (int i = 0; i < TUTTI_TYPE_COUNT; i++)
        if (strcmp(type_rows[i].name, name) == 0 || strstr(type_rows[i].aliases, word))
            *out = i;
    return *out >= 0 || strcmp(name, "all") == 0;
}

static bool root_by_name(const char *text, int *out)
{
    *out = -1;
    return strcmp(text, "all") == 0 || text_int(text, 0, INT32_MAX, out);
}

static bool take_option(struct perf_options *o, int option, const char *text)
{
    switch (option) {
    case 'b':
        return parse_size(text, &o->min);
    case 'e':
        return parse_size(text, &o->max);
    case 'i':
        return parse_size(text, &o->step) && o->step > 0;
    case 'f':
        return parse_int(text, &o->factor) && o->factor >= 0 && o->factor <= INT32_MAX;
    case 'n':
        return text_int(text, 1, INT32_MAX, &o->iterations);
    case 'N':
        return text_int(text, 0, INT32_MAX, &o->cycles);
    case 'w':
        return text_int(text, 0, INT32_MAX, &o->warmup);
    case 'm':
        return text_int(text, 1, 100000, &o->aggregate);
    case 'c':
        return text_int(text, 0, INT32_MAX, &o->checks);
    case 'o':
        return op_by_name(text, &o->op);
    case 'd':
        return type_by_name(text, &o->type);
    case 'r':
        return root_by_name(text, &o->root);
    case 'z':
        return text_int(text, 0, 3, &o->blocking);
    case 't':
        return text_int(text, 1, 1024, &o->threads);
    case 'g':
        return text_int(text, 1, 1024, &o->ranks);
    case 'p':
        return text_int(text, 0, 1, &o->parallel_init);
    case 'a':
        return text_int(text, 0, 3, &o->average);
    case 'T':
        return text_int(text, 0, INT32_MAX, &o->timeout);
    case 'C':
        return text_int(text, 0, 1, &o->calls_only);
    case 'R':
        return text_int(text, 0, 2, &o->registered);
    case OPTION_ROTATE:
        return text_int(text, 0, 1, &o->rotate);
    case OPTION_GPU:
        return o->gpu = true;
    case 'G':
        return text_int(text, 0, 100000, &o->replays);
    case OPTION_NP:
        return text_int(text, 1, 4096, &o->processes);
    default:
        o->json = text;
        return option == 'J';
    }
}

/* The one option of nccl-tests' users' habit that getopt would read as two. */
static void spell_np(int argc, char **argv)
{
    static char np[] = "--np";
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "-np") == 0)
            argv[i] = np;
}

static const char *option_name(int option)
{
    static char letter[] = "-?";
    letter[1] = (char)option;
    return option == OPTION_NP ? "--np" : option == OPTION_ROTATE ? "--rotate" : letter;
}

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
    const char *near = text_nearest(argv[optind], names, (size_t)collective_count);
    if (near)
        return usage_error("perf", "there is no collective \"%s\". Did you mean %s?", argv[optind], near);
    return usage_error("perf", "there is no collective \"%s\"", argv[optind]);
}

/* One row, whatever sizes, types, operators and roots were asked for: one command line fits all collectives. */
static void carry_nothing(struct perf_options *options)
{
    options->min = options->max = 0;
    options->type = TUTTI_UINT8;
    options->registered = 0;
}

int perf_parse(int argc, char **argv, struct perf_options *options)
{
    int option, which;
    char name[] = "tutti perf";
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
    argv[0] = name;
    optind = 1;
    spell_np(argc, argv);
    while ((option = getopt_long(argc, argv, "b:e:i:f:n:N:w:m:c:o:d:r:z:t:g:p:a:T:C:R:G:J:h", long_options, &which)) !=
           -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return EXIT_OK;
        }
        if (option == '?')
            return usage_error("perf", "that option is not known, or lacks its value");
        if (!take_option(options, option, optarg))
            return usage_error("perf", "\"%s\" is not a value of option %s", optarg, option_name(option));
    }
    if (options->max < options->min)
        return usage_error("perf", "-e %lld is below -b %lld", (long long)options->max, (long long)options->min);
    if (options->replays && !options->gpu)
        return usage_error("perf", "-G captures what runs on GPUs: give --gpu too");
    if (options->replays && options->blocking)
        return usage_error("perf", "-G and -z exclude each other: nothing in a graph can be waited for");
    if (options->replays && options->calls_only)
        return usage_error("perf", "-G and -C exclude each other: a replayed graph calls nothing");
    int code = find_collective(argc, argv, options);
    if (code < 0 && options->collective->meets)
        carry_nothing(options);
    if (code < 0 && options->collective->no_average && options->op == TUTTI_AVG)
        return usage_error("perf", "%s has no average", options->collective->name);
    if (code < 0 && options->collective->no_average && options->gpu)
        return usage_error("perf", "%s is not built for GPUs", options->collective->name);
    return code;
}
