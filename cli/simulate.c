/* SPDX-License-Identifier: Apache-2.0 */
/* tutti-simulate, which `tutti simulate` runs: our schedules on a network that a file describes. */
#include "cli/simulate.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/tune.h"

#include "algorithm/algorithm.h"
#include "base/error.h"
#include "base/param.h"
#include "base/parse.h"
#include "base/standard.h"
#include "file/hosts.h"
#include "file/read.h"
#include "simulate/placement.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct simulate_wishes {
    const char *gpus, *collective, *bytes, *algorithms, *orders, *paths, *hosts, *svg, *rules;
    int lanes, draws, fail, seed;
    double overhead, gamma;
    bool json;
};

#define W struct simulate_wishes
static const struct option_row rows[] = {
    {'n', "gpus", "LIST", "numbers of GPUs, the fabric's first ones: 512,8192 (default: all)", TO_TEXT(W, gpus)},
    {'c', "collective", "NAME", "allreduce (the default), allgather, ...", TO_TEXT(W, collective)},
    {'b', "bytes", "LIST", "bytes of the whole vector (default 64K,1M,16M,256M)", TO_TEXT(W, bytes)},
    {'a', "algorithms", "LIST", "of these algorithms only", TO_TEXT(W, algorithms)},
    {0, "orders", "LIST",
     "which ranks algorithms of few rounds meet first: nearest, farthest, hybrid (default nearest,farthest)",
     TO_TEXT(W, orders)},
    {'p', "paths", "LIST", "what chooses uplinks: ecmp, steered, allocated (default all)", TO_TEXT(W, paths)},
    {'l', "lanes", "N", "lanes of each pair of ranks (default 4)", TO_INT(W, lanes, 1, 32)},
    {0, "draws", "N", "how often chance is drawn: source ports, hashes, failures (default 3)",
     TO_INT(W, draws, 1, 1000)},
    {0, "fail", "N", "uplinks of leaves that are down, others in each draw", TO_INT(W, fail, 0, 100000)},
    {0, "seed", "N", "of all that is drawn (default 1)", TO_INT(W, seed, 0, INT_MAX)},
    {0, "hosts", "FILE", "the hosts of a job in the order of its ranks, one a line; judges their order, too",
     TO_TEXT(W, hosts)},
    {0, "overhead", "S", "seconds of software for each message (default 5e-7)", TO_REAL(W, overhead)},
    {0, "gamma", "S", "seconds per byte reduced (default 2e-12)", TO_REAL(W, gamma)},
    {0, "json", NULL, "all that was found, as JSON", TO_FLAG(W, json)},
    {0, "svg", "FILE", "draw the times of the largest number of GPUs in FILE", TO_TEXT(W, svg)},
    {0, "rules", "FILE", "write the best algorithms as a table for TUTTI_TUNE_FILE", TO_TEXT(W, rules)},
};
#undef W

static const struct options options_of_simulate = {
    .command = "simulate",
    .usage = "FABRIC [OPTION...]",
    .before = "Says how long a collective takes on a network that the file FABRIC describes (YAML: "
              "docs/operate/simulate.md): "
              "each algorithm, in each order, where switches hash (ecmp), where source ports steer, and where a master "
              "allocates. Nothing is sent.",
    .after = "Without options for more it says what FABRIC is, and compares the algorithms of allreduce.\n"
             "Exit status: 0 done, 1 it failed, 2 wrong options.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
};

/* ---- lists ---- */

typedef bool (*take_item)(void *to, const char *item);

static bool each_item(const char *list, take_item take, void *to)
{
    char item[64];
    while (*list) {
        size_t length = strcspn(list, ",");
        if (length >= sizeof item)
            return false;
        snprintf(item, sizeof item, "%.*s", (int)length, list);
        if (!take(to, item))
            return false;
        list += length + (list[length] == ',');
    }
    return true;
}

static bool take_size(void *to, const char *item)
{
    struct study_request *request = to;
    int64_t bytes;
    if (request->sizes == STUDY_SIZES || !parse_size(item, &bytes) || bytes < 1 ||
        (request->sizes && (double)bytes <= request->bytes[request->sizes - 1]))
        return false;
    request->bytes[request->sizes++] = (double)bytes;
    return true;
}

struct scales {
    int count, most, gpus[SIMULATE_SCALES];
};

static bool take_scale(void *to, const char *item)
{
    struct scales *scales = to;
    int gpus;
    if (scales->count == SIMULATE_SCALES || !text_int(item, 2, scales->most, &gpus) ||
        (scales->count && gpus <= scales->gpus[scales->count - 1]))
        return false;
    scales->gpus[scales->count++] = gpus;
    return true;
}

static bool take_word(uint32_t *set, const char *const *words, int count, const char *item)
{
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], item) == 0) {
            *set |= 1u << i;
            return true;
        }
    return false;
}

static bool take_order(void *to, const char *item)
{
    return take_word(to, study_orders, STUDY_ORDERS, item);
}

static bool take_way(void *to, const char *item)
{
    return take_word(to, route_names, ROUTE_WAYS, item);
}

static int read_lists(const struct simulate_wishes *w, struct study_request *request)
{
    request->coll = schedule_coll_find(w->collective, strlen(w->collective));
    if (request->coll == COLL_COUNT || request->coll == COLL_ALLTOALLV)
        return usage_error("simulate", "--collective %s: want one that tutti schedule --list has, but alltoallv",
                           w->collective);
    if (!each_item(w->bytes, take_size, request) || !request->sizes)
        return usage_error("simulate", "--bytes %s: want up to %d sizes that grow, such as 64K,1M", w->bytes,
                           STUDY_SIZES);
    if (!each_item(w->orders, take_order, &request->orders) || !request->orders)
        return usage_error("simulate", "--orders %s: want nearest, farthest or hybrid, with commas between", w->orders);
    if (!each_item(w->paths, take_way, &request->ways) || !request->ways)
        return usage_error("simulate", "--paths %s: want ecmp, steered or allocated, with commas between", w->paths);
    return -1;
}

static bool take_algorithm(void *to, const char *item)
{
    return algorithm_find(*(enum coll *)to, item, strlen(item)) != NULL;
}

static int check(const struct simulate_wishes *w, struct study_request *request)
{
    char names[512];
    int code = read_lists(w, request);
    if (code < 0 && w->algorithms && !each_item(w->algorithms, take_algorithm, &request->coll))
        return usage_error("simulate", "--algorithms %s: %s has %s", w->algorithms, schedule_coll_name(request->coll),
                           algorithm_names(request->coll, names, sizeof names));
    if (code < 0 && w->hosts && w->gpus)
        return usage_error("simulate", "--hosts and --gpus do not go together");
    if (code < 0 && w->json && w->rules)
        return usage_error("simulate", "--json and --rules do not go together");
    return code;
}

/* ---- one number of GPUs ---- */

static tutti_result_t simulate_scale(const struct study_request *base, const int32_t *place, int gpus,
                                     struct simulate_scale *out)
{
    const struct fabric *fabric = base->fabric;
    struct study_request request = *base;
    request.nranks = out->gpus = gpus;
    request.place = place;
    out->hosts = 1;
    for (int i = 1; i < gpus; i++)
        out->hosts += fabric->gpu_host[place[i]] != fabric->gpu_host[place[i - 1]];
    for (int d = 0; d < FABRIC_DISTANCES; d++)
        out->pairs[d] = 0;
    for (int i = 0; i < gpus; i++)
        out->pairs[fabric_distance_of(fabric, place[i], place[(i + 1) % gpus])]++;
    return study_make(&request, &out->study);
}

static tutti_result_t simulate_scales(const struct scales *scales, struct simulate_report *report)
{
    int32_t *place = malloc(((size_t)report->fabric->gpus + 1) * sizeof *place);
    if (!place)
        return error_note(TUTTI_SYSTEM_ERROR, "no memory for %d GPUs", report->fabric->gpus);
    for (int32_t g = 0; g < report->fabric->gpus; g++)
        place[g] = g;
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < scales->count && !result; i++)
        result = simulate_scale(&report->request, place, scales->gpus[i], &report->scale[report->scales++]);
    free(place);
    return result;
}

static int crossings_of(const struct fabric *fabric, const int32_t *host, int count)
{
    int pairs[FABRIC_DISTANCES];
    placement_pairs(fabric, host, count, pairs);
    return placement_crossings(pairs);
}

/* Simulates a job with its placement, and with its hosts in the best order. */
static tutti_result_t simulate_job(const struct host_list *list, struct simulate_report *report)
{
    const struct fabric *fabric = report->fabric;
    int32_t *place = malloc(((size_t)fabric->gpus + 1) * sizeof *place);
    int32_t *host = malloc(((size_t)list->count + 1) * sizeof *host);
    tutti_result_t result =
        place && host ? TUTTI_SUCCESS : error_note(TUTTI_SYSTEM_ERROR, "no memory for %d hosts", list->count);
    for (int h = 0; !result && h < list->count; h++)
        host[h] = list->line[h].host;
    int gpus = result ? 0 : placement_gpus(fabric, host, list->count, place);
    if (!result && gpus < 2)
        result = error_note(TUTTI_INVALID_ARGUMENT, "these hosts have %d GPU; 2 are needed", gpus);
    if (!result)
        result = simulate_scale(&report->request, place, gpus, &report->scale[report->scales++]);
    if (!result) {
        report->scale[0].crossings = crossings_of(fabric, host, list->count);
        result = placement_sort(fabric, host, list->count);
    }
    if (!result) {
        report->sorted->crossings = crossings_of(fabric, host, list->count);
        placement_gpus(fabric, host, list->count, place);
        result = simulate_scale(&report->request, place, gpus, report->sorted);
    }
    free(place);
    free(host);
    return result;
}

/* ---- answers ---- */

/* Rules follow the order that the library has. */
static void fill_case(const struct simulate_report *report, int index, struct tune_case *c)
{
    const struct simulate_scale *scale = &report->scale[index];
    enum route_way way = simulate_way(report);
    *c = (struct tune_case){.coll = report->request.coll, .transport = CHOICE_TCP, .ranks = scale->gpus};
    c->min_ranks = index ? scale->gpus : 2;
    c->max_ranks = index + 1 < report->scales ? report->scale[index + 1].gpus - 1 : INT_MAX;
    for (int i = 0; i < scale->study.count && c->count < 16; i++) {
        const struct study_row *row = &scale->study.row[i];
        if (!row->own || !row->done[way])
            continue;
        c->algorithms[c->count] = row->algorithm;
        for (int k = 0; k < report->request.sizes; k++)
            c->us[c->count][k] = row->time[way][k].mean * 1e6;
        c->count++;
    }
}

static int write_rules(const char *path, const struct simulate_report *report)
{
    struct choice_rule *rules = calloc((size_t)report->scales * TUNE_SIZES, sizeof *rules);
    struct tune_case *c = malloc(sizeof *c);
    int64_t sizes[STUDY_SIZES];
    char comment[160];
    int count = 0, code = EXIT_FAILED;
    for (int k = 0; k < report->request.sizes; k++)
        sizes[k] = (int64_t)report->request.bytes[k];
    for (int i = 0; rules && c && i < report->scales; i++) {
        fill_case(report, i, c);
        printf("%s of %d GPUs:\n", schedule_coll_name(report->request.coll), c->ranks);
        count += tune_rules(c, sizes, report->request.sizes, rules + count);
    }
    snprintf(comment, sizeof comment, "simulated on the fabric %s, paths %s: not measured", report->fabric->name,
             route_names[simulate_way(report)]);
    if (!rules || !c)
        failure("simulate", "no memory for rules");
    else if (choice_save(path, comment, rules, count) != TUTTI_SUCCESS)
        failure("simulate", "%s", error_last());
    else
        code = EXIT_OK;
    if (code == EXIT_OK)
        printf("rules are in %s: use them with TUTTI_TUNE_FILE=%s\n", path, path);
    free(rules);
    free(c);
    return code;
}

static int draw(const char *path, const struct simulate_report *report)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return failure("simulate", "%s: %s", path, strerror(errno));
    simulate_svg(file, report);
    bool lost = ferror(file) != 0;
    if (fclose(file) != 0 || lost)
        return failure("simulate", "%s: it could not be written: is the disk full?", path);
    if (strcmp(path, "/dev/stdout") != 0)
        fprintf(stderr, "drawn in %s\n", path);
    return EXIT_OK;
}

static int answer(const struct simulate_wishes *w, const struct simulate_report *report)
{
    int code = EXIT_OK;
    if (w->json)
        code = simulate_json(report);
    else
        simulate_text(stdout, report);
    if (code == EXIT_OK && w->svg)
        code = draw(w->svg, report);
    if (code == EXIT_OK && w->rules)
        code = write_rules(w->rules, report);
    return code;
}

static int run(const struct simulate_wishes *w, const struct scales *scales, const struct host_list *hosts,
               struct simulate_report *report)
{
    report->scale = calloc(SIMULATE_SCALES, sizeof *report->scale);
    report->sorted = w->hosts ? calloc(1, sizeof *report->sorted) : NULL;
    int code = EXIT_FAILED;
    if (!report->scale || (w->hosts && !report->sorted))
        failure("simulate", "out of memory");
    else if ((w->hosts ? simulate_job(hosts, report) : simulate_scales(scales, report)) != TUTTI_SUCCESS)
        failure("simulate", "%s", error_last());
    else
        code = answer(w, report);
    free(report->scale);
    free(report->sorted);
    return code;
}

static int with_fabric(const struct simulate_wishes *w, struct study_request *request, const struct fabric *fabric)
{
    struct scales scales = {.most = fabric->gpus};
    struct host_list hosts = {0};
    request->fabric = fabric;
    if (w->gpus && (!each_item(w->gpus, take_scale, &scales) || !scales.count))
        return usage_error("simulate", "--gpus %s: want up to %d numbers that grow, from 2 to the fabric's %d", w->gpus,
                           SIMULATE_SCALES, fabric->gpus);
    if (!w->gpus)
        scales = (struct scales){.count = 1, .gpus = {fabric->gpus}};
    if (!w->gpus && !w->hosts && fabric->gpus < 2)
        return failure("simulate", "the fabric has one GPU: nothing is sent");
    if (w->fail && w->fail >= fabric->uplinks)
        return usage_error("simulate", "--fail %d: the fabric has %d uplinks", w->fail, fabric->uplinks);
    if (w->hosts && host_list_load(w->hosts, fabric, false, &hosts) != TUTTI_SUCCESS)
        return failure("simulate", "%s", error_last());
    struct simulate_report report = {.fabric = fabric, .request = *request};
    int code = run(w, &scales, &hosts, &report);
    host_list_free(&hosts);
    return code;
}

int main(int argc, char **argv)
{
    struct fabric fabric;
    struct study_request request = {0};
    standard_hold();
    struct simulate_wishes w = {.collective = "allreduce",
                                .bytes = "64K,1M,16M,256M",
                                .orders = "nearest,farthest",
                                .paths = "ecmp,steered,allocated",
                                .lanes = 4,
                                .draws = 3,
                                .seed = 1,
                                .overhead = 5e-7,
                                .gamma = 2e-12};
    int code = options_parse(&options_of_simulate, argc, argv, &w);
    if (code < 0 && optind != argc - 1)
        code = usage_error("simulate", "want one FABRIC, a file such as examples/fabric/pod.yaml");
    if (code < 0)
        code = check(&w, &request);
    if (code >= 0)
        return code;
    request.model = (struct price_model){.overhead = w.overhead,
                                         .gamma = w.gamma,
                                         .slice = (double)param_int(PARAM_SLICE),
                                         .slices = (int)param_int(PARAM_SLICES),
                                         .lanes = w.lanes};
    request.algorithms = w.algorithms;
    request.draws = w.draws;
    request.failures = w.fail;
    request.seed = (uint64_t)w.seed;
    if (fabric_load(argv[optind], &fabric) != TUTTI_SUCCESS)
        return failure("simulate", "%s", error_last());
    code = with_fabric(&w, &request, &fabric);
    fabric_free(&fabric);
    text_flush();
    const char *lost = text_lost();
    return lost && code == EXIT_OK ? failure("simulate", "cannot write the output: %s", lost) : code;
}
