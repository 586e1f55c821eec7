/* SPDX-License-Identifier: Apache-2.0 */
/* tutti schedule: show, draw, prove and price the schedule of a collective. */
#include "cli/schedule.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/schedule_steps.h"

#include "algorithm/algorithm.h"
#include "base/error.h"
#include "base/guess.h"
#include "base/parse.h"
#include "schedule/checker.h"
#include "schedule/cost.h"
#include "schedule/printer.h"
#include "schedule/steps.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST (1 << 24)

struct schedule_request {
    const struct algorithm *algorithm;
    struct shape shape;
    int rank, slices;
    const char *svg, *where, *hosts, *islands;
    struct levels *levels; /* of the hosts of --hosts */
    bool quiet, check, list, captured, plans;
    int64_t bytes, plan;
    int links;
    struct cost_model model;
    double network_alpha, network_beta;
};

/* Bytes, or another option: then they are in --bytes. */
static int take_plan(void *request, const char *text)
{
    struct schedule_request *r = request;
    r->plans = true;
    if (text[0] == '-' && text[1]) {
        optind--;
        return OPTION_TAKEN;
    }
    return parse_size(text, &r->plan) && r->plan >= 0 ? OPTION_TAKEN : OPTION_REFUSED;
}

#define R struct schedule_request
static const struct option_row rows[] = {
    {'n', "ranks", "N", "number of ranks (default 8)", TO_INT(R, shape.nranks, 1, MOST)},
    {'r', "rank", "R", "print this rank only", TO_INT(R, rank, 0, MOST)},
    {0, "hosts", "LIST", "ranks of each host, one host behind the other: 4,4,2; or how many hosts share N evenly: 3",
     TO_TEXT(R, hosts)},
    {0, "islands", "LIST", "the same; the sizes give the number of ranks, and the algorithm may be left out: two-level",
     TO_TEXT(R, islands)},
    {0, "root", "R", "root of a rooted collective (default 0)", TO_INT(R, shape.root, 0, MOST)},
    {0, "svg", "FILE", "draw it in FILE (- is standard output, without the table)", TO_TEXT(R, svg)},
    {0, "quiet", NULL, "do not print the table", TO_FLAG(R, quiet)},
    {0, "check", NULL, "prove that every rank gets the right result: in place and not", TO_FLAG(R, check)},
    {0, "cost", "BYTES", "price a vector of BYTES (64K, 1M, ...)", TO_SIZE(R, bytes, 0)},
    {0, "alpha", "S", "with --cost: latency of a round in seconds (default 5e-6)", TO_REAL(R, model.alpha)},
    {0, "overhead", "S", "with --cost: seconds for each message (default 5e-7)", TO_REAL(R, model.overhead)},
    {0, "beta", "S", "with --cost: seconds per byte sent (default 1e-10)", TO_REAL(R, model.beta)},
    {0, "gamma", "S", "with --cost: seconds per byte reduced (default 2e-11)", TO_REAL(R, model.gamma)},
    {0, "slices", "N", "with --cost, or --plan and --islands: slices in a pipeline (default 1)",
     TO_INT(R, slices, 1, MOST)},
    {0, "network-alpha", "S", "with --islands: latency between islands in seconds (default 2e-5)",
     TO_REAL(R, network_alpha)},
    {0, "network-beta", "S", "with --islands: seconds per byte of a link (default 1e-9)", TO_REAL(R, network_beta)},
    {0, "links", "N", "with --islands: links of an island (default: one for each rail)", TO_INT(R, links, 1, MOST)},
    {0, "plan", "BYTES",
     "the algorithm that GPUs take for a call of BYTES, its kernel and grid; with --islands the steps and their price",
     TO_CALL(take_plan, "a size, as 64K or 1M")},
    {0, "bytes", "BYTES", "with --plan: the same as its value, which may then be left out", TO_SIZE(R, plan, 0)},
    {0, "where", "PLACE", "with --plan: where the GPUs are, as explained below (default processes)",
     .choices = "processes symmetric process mixed host", TO_TEXT(R, where)},
    {0, "captured", NULL, "with --plan: the call is captured in a graph", TO_FLAG(R, captured)},
    {0, "list", NULL, "list collectives and their algorithms", TO_FLAG(R, list)},
};
#undef R

static void offer_names(int place, char **words)
{
    enum coll coll = place == 1 ? schedule_coll_find(words[0], strlen(words[0])) : COLL_COUNT;
    for (int i = 0; place == 0 && i < COLL_COUNT; i++)
        options_offer(schedule_coll_name((enum coll)i), "");
    for (int i = 0; coll < COLL_COUNT && i < algorithm_count(); i++)
        if (schedule_in_set(coll, algorithm_row(i)->colls))
            options_offer(algorithm_row(i)->name, "");
}

static const struct options options_of_schedule = {
    .command = "schedule",
    .usage = "COLLECTIVE ALGORITHM [OPTION...]\n"
             "COLLECTIVE --plan BYTES [OPTION...]\n"
             "COLLECTIVE --islands LIST [--plan BYTES] [OPTION...]\n"
             "--list",
    .before = "Prints what each rank does in each round of a collective, or draws it.",
    .after = "Places of GPUs: processes have one GPU each. symmetric: the same, and all ranks have registered the "
             "memory together. process: one has all GPUs. mixed: several processes, some with several GPUs. host: "
             "windows in host memory.\n"
             "Exit status: 0 printed, and proved if that was asked, 1 not, 2 wrong options.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
    .words = offer_names,
};

static int refuse_collective(const char *name)
{
    const char *names[COLL_COUNT];
    for (int i = 0; i < COLL_COUNT; i++)
        names[i] = schedule_coll_name((enum coll)i);
    const char *near = guess_name(name, names, COLL_COUNT);
    if (near)
        return usage_error("schedule", "there is no collective \"%s\". Did you mean \"%s\"?", name, near);
    return usage_error("schedule", "there is no collective \"%s\"; tutti schedule --list has all", name);
}

/* The name of the algorithm that --plan finds. */
static int plan(const struct schedule_request *request, const char **name)
{
    const struct shape *shape = &request->shape;
    const struct schedule_price price = {.model = request->model,
                                         .network = {.alpha = request->network_alpha,
                                                     .overhead = request->model.overhead,
                                                     .beta = request->network_beta,
                                                     .links = request->links  ? request->links
                                                              : shape->levels ? levels_hosts(shape->levels)->least
                                                                              : 1},
                                         .slices = request->slices};
    if (request->plan < 0)
        return usage_error("schedule", "--plan wants bytes: --plan 16M, or --plan --bytes 16M");
    if (request->islands)
        *name = schedule_steps(shape, request->plan, &price);
    else if (!schedule_plan(shape->coll, shape->nranks, (uint64_t)request->plan, request->where, request->captured,
                            name))
        return usage_error("schedule", "--plan is for 8 GPUs at most, got -n %d", shape->nranks);
    return EXIT_OK;
}

static int read_collective(struct schedule_request *request, int argc, char **argv)
{
    int least = request->plans || request->islands ? 1 : 2, most = request->plans ? 1 : 2;
    if (argc - optind < least || argc - optind > most)
        return usage_error("schedule", most == 1 ? "want one collective" : "want one collective and one algorithm");
    request->shape.coll = schedule_coll_find(argv[optind], strlen(argv[optind]));
    if (request->shape.coll == COLL_COUNT)
        return refuse_collective(argv[optind]);
    if (request->rank >= request->shape.nranks || request->shape.root >= request->shape.nranks)
        return usage_error("schedule", "the rank and the root must be less than the number of ranks");
    return EXIT_OK;
}

static int read_algorithm(struct schedule_request *request, const char *name)
{
    char choices[512];
    int status = request->plans ? plan(request, &name) : EXIT_OK;
    if (status != EXIT_OK)
        return status;
    request->algorithm = algorithm_find(request->shape.coll, name, strlen(name));
    if (!request->algorithm)
        return usage_error("schedule", "%s has no algorithm %s, but %s", schedule_coll_name(request->shape.coll), name,
                           algorithm_names(request->shape.coll, choices, sizeof choices));
    if (!schedule_fits(request->algorithm, &request->shape))
        return usage_error("schedule", "this algorithm takes only a power of two of ranks");
    return EXIT_OK;
}

/* The host of each rank, from a list of sizes or a number of hosts. False: neither. */
static bool place_ranks(const char *text, int n, uint64_t *host)
{
    int64_t size, hosts;
    int rank = 0;
    if (!strchr(text, ',')) {
        if (!parse_int(text, &hosts) || hosts < 1 || hosts > n)
            return false;
        for (; rank < n; rank++)
            host[rank] = (uint64_t)rank * (uint64_t)hosts / (uint64_t)n;
        return true;
    }
    for (uint64_t name = 0; text; name++) {
        char word[24];
        const char *comma = strchr(text, ',');
        snprintf(word, sizeof word, "%.*s", comma ? (int)(comma - text) : (int)strlen(text), text);
        if (!parse_int(word, &size) || size < 1 || size > n - rank)
            return false;
        while (size--)
            host[rank++] = name;
        text = comma ? comma + 1 : NULL;
    }
    return rank == n;
}

/* The sum of a list of sizes; 0: it is none. */
static int sum_of(const char *text)
{
    int64_t sum = 0;
    for (const char *at = text; at && strchr(text, ','); at = strchr(at, ',')) {
        at += *at == ',';
        long size = strtol(at, NULL, 10);
        sum = size < 1 || size > MOST || sum > MOST ? 2 * MOST : sum + size;
    }
    return sum <= MOST ? (int)sum : 0;
}

static int read_hosts(struct schedule_request *request)
{
    if (request->islands) {
        int sum = sum_of(request->islands);
        request->hosts = request->islands;
        request->shape.nranks = sum ? sum : request->shape.nranks;
    }
    int n = request->shape.nranks;
    if (!request->hosts)
        return EXIT_OK;
    uint64_t *host = calloc((size_t)n, sizeof *host);
    int status = host && place_ranks(request->hosts, n, host)
                     ? EXIT_OK
                     : usage_error("schedule", "--%s wants a number of hosts, or sizes whose sum is -n, got \"%s\"",
                                   request->islands ? "islands" : "hosts", request->hosts);
    if (status == EXIT_OK && levels_of_hosts(host, n, &request->levels) != TUTTI_SUCCESS) {
        fprintf(stderr, "tutti schedule: %s\n", error_last());
        status = EXIT_FAILED;
    }
    free(host);
    request->shape.levels = request->levels;
    return status;
}

static void list(void)
{
    for (int coll = 0; coll < COLL_COUNT; coll++) {
        char names[512];
        printf("%-15s %s\n", schedule_coll_name((enum coll)coll),
               algorithm_names((enum coll)coll, names, sizeof names));
    }
}

static int print(const struct schedule_request *request)
{
    if (request->quiet || (request->svg && strcmp(request->svg, "-") == 0))
        return EXIT_OK;
    if (printer_text(stdout, request->algorithm, &request->shape, request->rank) == TUTTI_SUCCESS)
        return EXIT_OK;
    fprintf(stderr, "tutti schedule: %s\n", error_last());
    return EXIT_FAILED;
}

static int draw_file(const struct schedule_request *request, const char *name)
{
    struct stat facts;
    FILE *file = fopen(name, "w");
    if (!file) {
        fprintf(stderr, "tutti schedule: %s: %s\n", name, strerror(errno));
        return EXIT_FAILED;
    }
    tutti_result_t result = printer_svg(file, request->algorithm, &request->shape);
    bool lost = ferror(file) != 0;
    if ((fclose(file) != 0 || lost) && !result)
        result = error_note(TUTTI_SYSTEM_ERROR, "%s: it could not be written: is the disk full?", name);
    if (result) {
        fprintf(stderr, "tutti schedule: %s\n", error_last());
        if (lstat(name, &facts) == 0 && S_ISREG(facts.st_mode)) /* half a drawing; but never a device */
            unlink(name);
        return EXIT_FAILED;
    }
    printf("drawn in %s\n", name);
    return EXIT_OK;
}

static int draw(const struct schedule_request *request)
{
    if (!request->svg)
        return EXIT_OK;
    if (strcmp(request->svg, "-") != 0)
        return draw_file(request, request->svg);
    if (printer_svg(stdout, request->algorithm, &request->shape) == TUTTI_SUCCESS)
        return EXIT_OK;
    fprintf(stderr, "tutti schedule: %s\n", error_last());
    return EXIT_FAILED;
}

static int check(const struct schedule_request *request)
{
    for (int in_place = 0; request->check && in_place < 2; in_place++) {
        char why[512] = "";
        if (in_place && !schedule_in_place_defined(request->shape.coll))
            continue;
        if (schedule_check(request->algorithm, request->shape, in_place, why, sizeof why) != TUTTI_SUCCESS) {
            fprintf(stderr, "tutti schedule: wrong%s: %s\n", in_place ? " in place" : "", *why ? why : error_last());
            return EXIT_FAILED;
        }
        printf("proved %s\n", in_place ? "in place" : "out of place");
    }
    return EXIT_OK;
}

static int price(const struct schedule_request *request)
{
    struct cost_terms terms;
    if (request->bytes < 0)
        return EXIT_OK;
    if (cost_terms(request->algorithm, &request->shape, &terms) != TUTTI_SUCCESS) {
        fprintf(stderr, "tutti schedule: %s\n", error_last());
        return EXIT_FAILED;
    }
    double seconds = cost_seconds(&terms, &request->model, (double)request->bytes, request->slices);
    printf("cost: %g rounds, %g messages, %g vectors sent, %g reduced\n", terms.rounds, terms.messages, terms.bytes,
           terms.reduced);
    printf("busiest rank: %g messages, %g vectors sent, %g reduced\n", terms.rank_messages, terms.rank_bytes,
           terms.rank_reduced);
    struct cost_far far;
    if (request->levels && cost_far_walk(request->algorithm, &request->shape, &far) == TUTTI_SUCCESS)
        printf("busiest host's link: %g rounds, %g messages, %g vectors sent\n", far.rounds, far.messages, far.bytes);
    if (request->levels && (request->algorithm->flags & ALGORITHM_LEVELS))
        printf("rails together: %s = %g vectors sent\n", steps_rail_formula(request->shape.coll),
               steps_rail_vectors(&request->shape));
    printf("%lld bytes in %d slice%s: %.3f us, %.3f GB/s\n", (long long)request->bytes, request->slices,
           request->slices == 1 ? "" : "s", seconds * 1e6, seconds > 0 ? (double)request->bytes / seconds / 1e9 : 0);
    return EXIT_OK;
}

int cmd_schedule(int argc, char **argv)
{
    struct schedule_request request = {.shape = {.nranks = 8},
                                       .rank = -1,
                                       .slices = 1,
                                       .bytes = -1,
                                       .plan = -1,
                                       .where = "processes",
                                       .network_alpha = 2e-5,
                                       .network_beta = 1e-9,
                                       .model = {.alpha = 5e-6, .overhead = 5e-7, .beta = 1e-10, .gamma = 2e-11}};
    int status = options_parse(&options_of_schedule, argc, argv, &request);
    if (status >= 0)
        return status;
    if (request.list) {
        list();
        return EXIT_OK;
    }
    status = read_hosts(&request);
    if (status == EXIT_OK)
        status = read_collective(&request, argc, argv);
    if (status == EXIT_OK)
        status = read_algorithm(&request, argc - optind > 1 ? argv[optind + 1] : "two-level");
    if (status == EXIT_OK)
        status = print(&request);
    if (status == EXIT_OK)
        status = draw(&request);
    if (status == EXIT_OK)
        status = check(&request);
    if (status == EXIT_OK)
        status = price(&request);
    free(request.levels);
    return status;
}
