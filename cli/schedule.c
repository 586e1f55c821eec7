/* SPDX-License-Identifier: Apache-2.0 */
/* tutti schedule: show, draw, prove and price the schedule of a collective. */
#include "schedule.h"

#include "algorithm/algorithm.h"
#include "base/error.h"
#include "base/parse.h"
#include "schedule/checker.h"
#include "schedule/cost.h"
#include "schedule/printer.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OK, FAILED, USAGE };

static const char help[] = "Usage: tutti schedule COLLECTIVE ALGORITHM [options]\n"
                           "       tutti schedule COLLECTIVE --plan BYTES [options]\n"
                           "       tutti schedule --list\n"
                           "\n"
                           "Prints what each rank does in each round of a collective, or draws it.\n"
                           "\n"
                           "  -n, --ranks N        number of ranks (8)\n"
                           "  -r, --rank R         print this rank only\n"
                           "      --hosts LIST     ranks of each host, one host behind the other: 4,4,2; or\n"
                           "                       how many hosts share N evenly: 3\n"
                           "      --root R         root of a rooted collective (0)\n"
                           "      --svg FILE       draw it in FILE (- is standard output, without the table)\n"
                           "      --quiet          do not print the table\n"
                           "      --check          prove it: in place and not\n"
                           "      --cost BYTES     price a vector of BYTES (64K, 1M, ...)\n"
                           "      --alpha S        latency of a round in seconds (5e-6)\n"
                           "      --overhead S     seconds for each message (5e-7)\n"
                           "      --beta S         seconds per byte sent (1e-10)\n"
                           "      --gamma S        seconds per byte reduced (2e-11)\n"
                           "      --slices N       slices in a pipeline (1)\n"
                           "      --plan BYTES     the algorithm that GPUs take for so many bytes of a call,\n"
                           "                       kernel and grid\n"
                           "      --where PLACE    of GPUs: processes (a process each), symmetric (and\n"
                           "                       memory registered with all), process (one),\n"
                           "                       mixed, host (windows there)\n"
                           "      --captured       the call is captured in a graph\n"
                           "      --list           list collectives and algorithms\n"
                           "  -h, --help           this text\n";

struct request {
    const struct algorithm *algorithm;
    struct shape shape;
    int rank, slices;
    const char *svg, *where, *hosts;
    struct levels *levels; /* of those hosts */
    bool quiet, check, list, help, captured;
    int64_t bytes, plan;
    struct cost_model model;
};

static int usage_error(const char *what, const char *value)
{
    fprintf(stderr, "tutti schedule: %s%s%s (see tutti schedule --help)\n", what, value ? ": " : "",
            value ? value : "");
    return USAGE;
}

static bool to_int(const char *text, int least, int *out)
{
    int64_t value;
    if (!parse_int(text, &value) || value < least || value > 1 << 24)
        return false;
    *out = (int)value;
    return true;
}

static bool to_seconds(const char *text, double *out)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end || errno || !(value >= 0) || value > 1e6)
        return false;
    *out = value;
    return true;
}

enum {
    OPTION_ROOT = 256,
    OPTION_SVG,
    OPTION_QUIET,
    OPTION_CHECK,
    OPTION_COST,
    OPTION_ALPHA,
    OPTION_OVERHEAD,
    OPTION_BETA,
    OPTION_GAMMA,
    OPTION_SLICES,
    OPTION_PLAN,
    OPTION_WHERE,
    OPTION_CAPTURED,
    OPTION_HOSTS,
    OPTION_LIST
};

static const struct option options[] = {
    {"ranks", required_argument, NULL, 'n'},
    {"rank", required_argument, NULL, 'r'},
    {"hosts", required_argument, NULL, OPTION_HOSTS},
    {"root", required_argument, NULL, OPTION_ROOT},
    {"svg", required_argument, NULL, OPTION_SVG},
    {"quiet", no_argument, NULL, OPTION_QUIET},
    {"check", no_argument, NULL, OPTION_CHECK},
    {"cost", required_argument, NULL, OPTION_COST},
    {"alpha", required_argument, NULL, OPTION_ALPHA},
    {"overhead", required_argument, NULL, OPTION_OVERHEAD},
    {"beta", required_argument, NULL, OPTION_BETA},
    {"gamma", required_argument, NULL, OPTION_GAMMA},
    {"slices", required_argument, NULL, OPTION_SLICES},
    {"plan", required_argument, NULL, OPTION_PLAN},
    {"where", required_argument, NULL, OPTION_WHERE},
    {"captured", no_argument, NULL, OPTION_CAPTURED},
    {"list", no_argument, NULL, OPTION_LIST},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* Options with a number. False: the value is not one, or out of range. */
static bool set_number(struct request *request, int option, const char *text)
{
    switch (option) {
    case 'n':
        return to_int(text, 1, &request->shape.nranks);
    case 'r':
        return to_int(text, 0, &request->rank);
    case OPTION_ROOT:
        return to_int(text, 0, &request->shape.root);
    case OPTION_SLICES:
        return to_int(text, 1, &request->slices);
    case OPTION_COST:
        return parse_size(text, &request->bytes);
    case OPTION_PLAN:
        return parse_size(text, &request->plan);
    case OPTION_ALPHA:
        return to_seconds(text, &request->model.alpha);
    case OPTION_OVERHEAD:
        return to_seconds(text, &request->model.overhead);
    case OPTION_BETA:
        return to_seconds(text, &request->model.beta);
    default:
        return to_seconds(text, &request->model.gamma);
    }
}

static bool set_flag(struct request *request, int option)
{
    switch (option) {
    case OPTION_QUIET:
        return request->quiet = true;
    case OPTION_CHECK:
        return request->check = true;
    case OPTION_CAPTURED:
        return request->captured = true;
    case OPTION_LIST:
        return request->list = true;
    case 'h':
        return request->help = true;
    default:
        return false;
    }
}

static int read_options(struct request *request, int argc, char **argv)
{
    int option;
    optind = 0; /* begin afresh */
    while ((option = getopt_long(argc, argv, "n:r:h", options, NULL)) != -1) {
        if (option == '?')
            return usage_error("bad option", NULL);
        if (option == OPTION_SVG)
            request->svg = optarg;
        else if (option == OPTION_WHERE)
            request->where = optarg;
        else if (option == OPTION_HOSTS)
            request->hosts = optarg;
        else if (!set_flag(request, option) && !set_number(request, option, optarg))
            return usage_error("not a number in range", optarg);
    }
    return OK;
}

static int read_names(struct request *request, int argc, char **argv)
{
    char choices[512];
    bool plan = request->plan >= 0;
    if (argc - optind != (plan ? 1 : 2))
        return usage_error(plan ? "want one collective" : "want one collective and one algorithm", NULL);
    const char *coll = argv[optind], *name = argv[optind + 1];
    request->shape.coll = schedule_coll_find(coll, strlen(coll));
    if (request->shape.coll == COLL_COUNT)
        return usage_error("no such collective", coll);
    if (plan && !schedule_plan(request->shape.coll, request->shape.nranks, (uint64_t)request->plan, request->where,
                               request->captured, &name))
        return usage_error("no such place, or more than 8 GPUs", request->where);
    request->algorithm = algorithm_find(request->shape.coll, name, strlen(name));
    if (!request->algorithm) {
        fprintf(stderr, "tutti schedule: %s has no algorithm %s, but %s\n", schedule_coll_name(request->shape.coll),
                name, algorithm_names(request->shape.coll, choices, sizeof choices));
        return USAGE;
    }
    if (request->rank >= request->shape.nranks || request->shape.root >= request->shape.nranks)
        return usage_error("the rank and the root must be less than the number of ranks", NULL);
    if (!schedule_fits(request->algorithm, &request->shape))
        return usage_error("this algorithm takes only a power of two of ranks", NULL);
    return OK;
}

/* Host of each rank, from a list of sizes or a number of hosts. False: neither. */
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

static int read_hosts(struct request *request)
{
    int n = request->shape.nranks;
    if (!request->hosts)
        return OK;
    uint64_t *host = calloc((size_t)n, sizeof *host);
    int status = host && place_ranks(request->hosts, n, host)
                     ? OK
                     : usage_error("--hosts wants a number of hosts, or sizes whose sum is -n", request->hosts);
    if (status == OK && levels_make(host, n, &request->levels) != TUTTI_SUCCESS) {
        fprintf(stderr, "tutti schedule: %s\n", error_last());
        status = FAILED;
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

static int print(const struct request *request)
{
    if (request->quiet || (request->svg && strcmp(request->svg, "-") == 0))
        return OK;
    if (printer_text(stdout, request->algorithm, &request->shape, request->rank) == TUTTI_SUCCESS)
        return OK;
    fprintf(stderr, "tutti schedule: %s\n", error_last());
    return FAILED;
}

static int draw_file(const struct request *request, const char *name)
{
    struct stat facts;
    FILE *file = fopen(name, "w");
    if (!file) {
        fprintf(stderr, "tutti schedule: %s: %s\n", name, strerror(errno));
        return FAILED;
    }
    tutti_result_t result = printer_svg(file, request->algorithm, &request->shape);
    bool lost = ferror(file) != 0;
    if ((fclose(file) != 0 || lost) && !result)
        result = error_note(TUTTI_SYSTEM_ERROR, "%s: it could not be written: is the disk full?", name);
    if (result) {
        fprintf(stderr, "tutti schedule: %s\n", error_last());
        if (lstat(name, &facts) == 0 && S_ISREG(facts.st_mode)) /* half a drawing; but never a device */
            unlink(name);
        return FAILED;
    }
    printf("drawn in %s\n", name);
    return OK;
}

static int draw(const struct request *request)
{
    if (!request->svg)
        return OK;
    if (strcmp(request->svg, "-") != 0)
        return draw_file(request, request->svg);
    if (printer_svg(stdout, request->algorithm, &request->shape) == TUTTI_SUCCESS)
        return OK;
    fprintf(stderr, "tutti schedule: %s\n", error_last());
    return FAILED;
}

static int check(const struct request *request)
{
    for (int in_place = 0; request->check && in_place < 2; in_place++) {
        char why[512] = "";
        if (in_place && !schedule_in_place_defined(request->shape.coll))
            continue;
        if (schedule_check(request->algorithm, request->shape, in_place, why, sizeof why) != TUTTI_SUCCESS) {
            fprintf(stderr, "tutti schedule: wrong%s: %s\n", in_place ? " in place" : "", *why ? why : error_last());
            return FAILED;
        }
        printf("proved %s\n", in_place ? "in place" : "out of place");
    }
    return OK;
}

static int price(const struct request *request)
{
    struct cost_terms terms;
    if (request->bytes < 0)
        return OK;
    if (cost_terms(request->algorithm, &request->shape, &terms) != TUTTI_SUCCESS) {
        fprintf(stderr, "tutti schedule: %s\n", error_last());
        return FAILED;
    }
    double seconds = cost_seconds(&terms, &request->model, (double)request->bytes, request->slices);
    printf("cost: %g rounds, %g messages, %g vectors sent, %g reduced\n", terms.rounds, terms.messages, terms.bytes,
           terms.reduced);
    printf("busiest rank: %g messages, %g vectors sent, %g reduced\n", terms.rank_messages, terms.rank_bytes,
           terms.rank_reduced);
    struct cost_far far;
    if (request->levels && cost_far_walk(request->algorithm, &request->shape, &far) == TUTTI_SUCCESS)
        printf("busiest host's link: %g rounds, %g messages, %g vectors sent\n", far.rounds, far.messages, far.bytes);
    printf("%lld bytes in %d slice%s: %.3f us, %.3f GB/s\n", (long long)request->bytes, request->slices,
           request->slices == 1 ? "" : "s", seconds * 1e6, seconds > 0 ? (double)request->bytes / seconds / 1e9 : 0);
    return OK;
}

int cmd_schedule(int argc, char **argv)
{
    struct request request = {.shape = {.nranks = 8},
                              .rank = -1,
                              .slices = 1,
                              .bytes = -1,
                              .plan = -1,
                              .where = "processes",
                              .model = {.alpha = 5e-6, .overhead = 5e-7, .beta = 1e-10, .gamma = 2e-11}};
    int status = read_options(&request, argc, argv);
    if (status == OK && request.help) {
        fputs(help, stdout);
        return OK;
    }
    if (status == OK && request.list) {
        list();
        return OK;
    }
    if (status == OK)
        status = read_names(&request, argc, argv);
    if (status == OK)
        status = read_hosts(&request);
    if (status == OK)
        status = print(&request);
    if (status == OK)
        status = draw(&request);
    if (status == OK)
        status = check(&request);
    if (status == OK)
        status = price(&request);
    free(request.levels);
    return status;
}
