/* SPDX-License-Identifier: Apache-2.0 */
/* Rows as they are made, in nccl-tests' columns, and the same as JSON. Rank 0's process writes; the others only count.
 */
#include "cli/cli.h"
#include "cli/perf_report.h"
#include "cli/perf.h"
#include "cli/perf_collectives.h"
#include "cli/perf_data.h"
#include "cli/perf_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct perf_report {
    const struct perf *perf;
    bool writes;
    FILE *json;
    int rows;
    int measures;
    double bus_sum;
    int64_t wrong;
};

struct who {
    int32_t pid, number;
    char host[60], bus_id[16], name[64];
};

static void print_ranks(const struct perf *perf, const struct who *all)
{
    printf("# Using devices\n");
    for (int rank = 0; rank < perf->size; rank++)
        printf("#  Rank %2d Group  0 Pid %6d on %10.59s device %2d [%s] %s\n", rank, all[rank].pid, all[rank].host,
               all[rank].number, all[rank].bus_id, all[rank].name);
    printf("#\n");
}

static void describe(const struct perf *perf, struct who *mine)
{
    for (int i = 0; i < perf->local; i++) {
        const struct seat *seat = &perf->workers[i / perf->options.ranks].seats[i % perf->options.ranks];
        mine[i] = (struct who){.pid = getpid(), .number = seat->number};
        gethostname(mine[i].host, sizeof mine[i].host - 1);
        snprintf(mine[i].bus_id, sizeof mine[i].bus_id, "%s", seat->bus_id);
        snprintf(mine[i].name, sizeof mine[i].name, "%s", seat->name);
    }
}

static void introduce(struct perf_report *report)
{
    const struct perf *perf = report->perf;
    size_t local = (size_t)perf->local;
    struct who *all = calloc((size_t)perf->size, sizeof *all), *mine = all + local * (size_t)perf->process;
    if (!all)
        perf_die("out of memory");
    describe(perf, mine);
    if (perf->world) {
        perf_must(tutti_allgather(mine, all, local * sizeof *all, TUTTI_UINT8, perf->world, NULL), "introduction",
                  perf->world);
        perf_must(tutti_comm_synchronize(perf->world), "introduction", perf->world);
    }
    if (report->writes)
        print_ranks(perf, all);
    free(all);
}

static void print_head(const struct perf *perf)
{
    const struct perf_options *o = &perf->options;
    printf("# tutti perf %s, version %d\n", o->collective->name, tutti_get_version());
    printf("# nProcess %d nThread %d nGpus %d minBytes %lld maxBytes %lld step: %lld(%s) warmup iters: %d iters: %d "
           "agg iters: "
           "%d validation: %d blocking: %d graph: %d\n#\n",
           perf->processes, o->threads, o->ranks, (long long)o->min, (long long)o->max,
           (long long)(o->factor > 1 ? o->factor : o->step), o->factor > 1 ? "factor" : "bytes", o->warmup,
           o->iterations, o->aggregate, o->checks, o->blocking, o->replays);
}

static void print_columns(void)
{
    printf("# %10s  %12s  %8s  %6s  %6s  %29s  %6s  %29s  %6s\n", "", "", "", "", "", "out-of-place         ", "",
           "in-place           ", "");
    printf("# %10s  %12s  %8s  %6s  %6s  %10s  %8s  %7s  %6s  %10s  %8s  %7s  %6s\n", "size", "count", "type", "redop",
           "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong");
    printf("# %10s  %12s  %8s  %6s  %6s  %10s  %8s  %7s  %6s  %10s  %8s  %7s  %6s\n", "(B)", "(elements)", "", "", "",
           "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
    text_flush();
}

static void open_json(struct perf_report *report)
{
    const struct perf_options *o = &report->perf->options;
    report->json = fopen(o->json, "we");
    if (!report->json) {
        fprintf(stderr, "tutti perf: cannot write %s: %s\n", o->json, strerror(errno));
        perf_die("give another --json file");
    }
    fprintf(report->json,
            "{\"collective\": \"%s\", \"ranks\": %d, \"processes\": %d, \"threads\": %d, \"iterations\": %d, "
            "\"warmup\": %d, \"blocking\": %d, \"graph\": %d, \"memory\": \"%s\",\n \"rows\": [",
            o->collective->name, report->perf->size, report->perf->processes, o->threads, o->iterations, o->warmup,
            o->blocking, o->replays, report->perf->workers->seats->name);
}

/* A rank alone moves a copy at most: its rows would look like a great bandwidth. */
static void tell_of_one_rank(const struct perf *perf)
{
    if (perf->size == 1)
        printf("# ONE RANK ALONE is measured: nothing goes to another rank, so these rows are no bandwidth.\n"
               "# For N ranks on this host: tutti perf %s -np N\n#\n",
               perf->options.collective->name);
}

struct perf_report *report_open(const struct perf *perf)
{
    struct perf_report *report = calloc(1, sizeof *report);
    if (!report)
        perf_die("out of memory");
    report->perf = perf;
    report->writes = perf->process == 0;
    if (report->writes) {
        tell_of_one_rank(perf);
        print_head(perf);
    }
    introduce(report);
    if (report->writes) {
        print_columns();
        if (perf->options.json)
            open_json(report);
    }
    return report;
}

static const char *op_column(const struct perf_shape *shape)
{
    return shape->collective->reduces ? op_names[shape->op] : "none";
}

static const char *type_column(const struct perf_shape *shape)
{
    return shape->collective->meets ? "none" : type_rows[shape->type].name;
}

static int root_column(const struct perf_shape *shape)
{
    return shape->collective->rooted ? shape->root : -1;
}

static void print_measure(const struct measure *measure)
{
    if (!measure->done) {
        printf("  %10s  %8s  %7s  %6s", "N/A", "N/A", "N/A", "N/A");
        return;
    }
    printf(measure->us < 1e5 ? "  %10.2f" : "  %10.0f", measure->us);
    printf("  %8.3f  %7.3f", measure->algorithm_gbs, measure->bus_gbs);
    if (measure->wrong < 0)
        printf("  %6s", "N/A");
    else
        printf("  %6lld", (long long)measure->wrong);
}

static void write_measure(FILE *json, const char *name, const struct measure *measure)
{
    if (!measure->done)
        fprintf(json, ", \"%s\": null", name);
    else
        fprintf(json, ", \"%s\": {\"time_us\": %.9g, \"algbw\": %.9g, \"busbw\": %.9g, \"wrong\": %lld}", name,
                measure->us, measure->algorithm_gbs, measure->bus_gbs, (long long)measure->wrong);
}

static void write_json_row(struct perf_report *report, const struct perf_shape *shape, const struct measure results[2])
{
    const struct type_row *type = &type_rows[shape->type];
    fprintf(report->json, "%s\n  {\"size\": %zu, \"count\": %zu, \"type\": \"%s\", \"op\": \"%s\", \"root\": %d",
            report->rows ? "," : "", shape->count * type->size, shape->count, type_column(shape), op_column(shape),
            root_column(shape));
    write_measure(report->json, "out_of_place", &results[0]);
    write_measure(report->json, "in_place", &results[1]);
    fprintf(report->json, "}");
}

void report_row(struct perf_report *report, const struct perf_shape *shape, const struct measure results[2])
{
    const struct type_row *type = &type_rows[shape->type];
    for (int i = 0; i < 2; i++) {
        report->measures += results[i].done;
        report->bus_sum += results[i].bus_gbs;
        report->wrong += results[i].wrong > 0 ? results[i].wrong : 0;
    }
    if (report->writes) {
        printf("  %10zu  %12zu  %8s  %6s  %6d", shape->count * type->size, shape->count, type_column(shape),
               op_column(shape), root_column(shape));
        print_measure(&results[0]);
        print_measure(&results[1]);
        printf("\n");
        text_flush();
    }
    if (report->json)
        write_json_row(report, shape, results);
    report->rows++;
}

int report_close(struct perf_report *report)
{
    bool good = report->wrong == 0;
    double average = report->measures ? report->bus_sum / report->measures : 0;
    if (report->writes) {
        printf("# Out of bounds values : %lld %s\n", (long long)report->wrong, good ? "OK" : "FAILED");
        printf("# Avg bus bandwidth    : %g\n#\n", average);
        text_flush();
    }
    if (report->json) {
        fprintf(report->json, "\n ], \"wrong\": %lld, \"average_busbw\": %.6f}\n", (long long)report->wrong, average);
        if (fclose(report->json) != 0)
            good = failure("perf", "cannot write %s: %s", report->perf->options.json, strerror(errno)) == EXIT_OK;
    }
    free(report);
    return good ? EXIT_OK : EXIT_FAILED;
}
