/* SPDX-License-Identifier: Apache-2.0 */
/* tutti-hostfile, which `tutti hostfile` runs: lists of hosts in the order of a fabric. */
#include "cli/cli.h"
#include "cli/options.h"

#include "base/error.h"
#include "base/standard.h"
#include "file/hosts.h"
#include "file/read.h"
#include "simulate/placement.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS 8

struct hostfile_wishes {
    int format; /* enum hostfile_format */
    const char *groups;
};

enum hostfile_format { FORMAT_LINES, FORMAT_TORCHRUN };

#define W struct hostfile_wishes
static const struct option_row rows[] = {
    {'f', "format", "FORMAT", "lines: as they stand in HOSTFILE (default); torchrun: each host with its options",
     TO_WORD(W, format, "lines torchrun")},
    {'g', "groups", "SIZE:WITHIN,...",
     "refuse a list whose groups of SIZE lines are not each within a rack, a zone or "
     "a building: 2:rack,16:zone",
     TO_TEXT(W, groups)},
};
#undef W

static const struct options options_of_hostfile = {
    .command = "hostfile",
    .usage = "sort FABRIC HOSTFILE [OPTION...]",
    .before =
        "Prints the lines of HOSTFILE so that hosts of one leaf stand together, then leaves of one zone, then zones "
        "of one building, by the file FABRIC (YAML: docs/operate/simulate.md). Otherwise they keep their order. Says "
        "on "
        "standard error how many neighbours have different leaves, before and after. A line has one host, by its name "
        "or the address of a NIC. Taken are hostfiles of Open MPI (HOST slots=N), of MPICH (HOST:N) and of Slurm "
        "(HOST alone, for SLURM_HOSTFILE).",
    .after = "Exit status: 0 sorted, 1 it failed, or groups cannot be met, 2 wrong options.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
};

/* A line, and its host's place in the order. */
struct ranked {
    const struct host_line *line;
    int rank;
};

static int lines_by_rank(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;
    return a->rank != b->rank ? a->rank - b->rank : (a->line > b->line) - (a->line < b->line);
}

static void print(const struct fabric *fabric, const struct ranked *sorted, int count, enum hostfile_format format)
{
    const char *first = fabric->host[sorted[0].line->host].name;
    for (int i = 0; i < count; i++)
        if (format == FORMAT_TORCHRUN)
            printf("%s --nnodes=%d --node-rank=%d --master-addr=%s\n", fabric->host[sorted[i].line->host].name, count,
                   i, first);
        else
            printf("%s\n", sorted[i].line->text);
}

static void say(const struct fabric *fabric, const struct host_list *list, const struct ranked *sorted, int32_t *host)
{
    int before[FABRIC_DISTANCES], after[FABRIC_DISTANCES];
    for (int i = 0; i < list->count; i++)
        host[i] = list->line[i].host;
    placement_pairs(fabric, host, list->count, before);
    for (int i = 0; i < list->count; i++)
        host[i] = sorted[i].line->host;
    placement_pairs(fabric, host, list->count, after);
    fprintf(stderr, "%d lines; neighbours with different leaves: %d before, %d after", list->count,
            placement_crossings(before), placement_crossings(after));
    if (fabric->zones > 1)
        fprintf(stderr, "; with different zones: %d before, %d after", before[FABRIC_BUILDING] + before[FABRIC_CAMPUS],
                after[FABRIC_BUILDING] + after[FABRIC_CAMPUS]);
    fputc('\n', stderr);
}

/* rank[host]: its place among the hosts of the list. */
static tutti_result_t rank_hosts(const struct fabric *fabric, const struct host_list *list, int32_t *host, int *rank)
{
    int count = 0;
    for (int32_t h = 0; h < fabric->hosts; h++)
        rank[h] = -1;
    for (int i = 0; i < list->count; i++) /* each host once, in the order of the list */
        if (rank[list->line[i].host] < 0) {
            rank[list->line[i].host] = 0;
            host[count++] = list->line[i].host;
        }
    tutti_result_t result = placement_sort(fabric, host, count);
    for (int i = 0; !result && i < count; i++)
        rank[host[i]] = i;
    return result;
}

/* "2:rack,16:zone". Returns how many; -1 after error_note. */
static int read_groups(const char *text, struct placement_wish wish[GROUPS])
{
    int count = 0, size = 0, used = 0;
    char level[16];
    while (*text) {
        int distance = -1;
        if (count < GROUPS && sscanf(text, "%9d:%15[a-z]%n", &size, level, &used) == 2)
            distance = options_index("rack zone building", level);
        const struct placement_wish *before = count ? &wish[count - 1] : NULL;
        enum fabric_distance within = (enum fabric_distance)(FABRIC_RACK + distance);
        if (distance < 0 || size < 1 || (before && (size % before->size || within < before->within)) ||
            !strchr(",", text[used]) || (text[used] && !text[used + 1])) {
            error_note(TUTTI_INVALID_ARGUMENT, "--groups: want SIZE:rack, SIZE:zone or SIZE:building, small groups "
                                               "first, each size a multiple of the one before: 2:rack,16:zone");
            return -1;
        }
        wish[count++] = (struct placement_wish){size, within};
        text += used + (text[used] == ',');
    }
    return count;
}

/* The hosts of sorted lines, one for each line. */
static tutti_result_t check_groups(const char *groups, const struct fabric *fabric, const struct ranked *sorted,
                                   int32_t *host, int count)
{
    struct placement_wish wish[GROUPS];
    int wishes = groups ? read_groups(groups, wish) : 0;
    for (int i = 0; i < count; i++)
        host[i] = sorted[i].line->host;
    return wishes < 0 ? TUTTI_INVALID_ARGUMENT : placement_check(fabric, host, count, wish, wishes);
}

static tutti_result_t sort(const struct hostfile_wishes *w, const struct fabric *fabric, const struct host_list *list)
{
    struct ranked *sorted = malloc(((size_t)list->count + 1) * sizeof *sorted);
    int32_t *host = malloc(((size_t)list->count + 1) * sizeof *host);
    int *rank = malloc(((size_t)fabric->hosts + 1) * sizeof *rank);
    tutti_result_t result = sorted && host && rank
                                ? rank_hosts(fabric, list, host, rank)
                                : error_note(TUTTI_SYSTEM_ERROR, "no memory for %d hosts", list->count);
    for (int i = 0; !result && i < list->count; i++)
        sorted[i] = (struct ranked){&list->line[i], rank[list->line[i].host]};
    if (!result) {
        qsort(sorted, (size_t)list->count, sizeof *sorted, lines_by_rank);
        result = check_groups(w->groups, fabric, sorted, host, list->count);
    }
    if (!result) {
        print(fabric, sorted, list->count, w->format);
        say(fabric, list, sorted, host);
    }
    free(sorted);
    free(host);
    free(rank);
    return result;
}

int main(int argc, char **argv)
{
    struct fabric fabric = {0};
    struct host_list list = {0};
    struct hostfile_wishes w = {0};
    standard_hold();
    int code = options_parse(&options_of_hostfile, argc, argv, &w);
    if (code >= 0)
        return code;
    if (optind != argc - 3 || strcmp(argv[optind], "sort") != 0)
        return usage_error("hostfile", "want sort, a FABRIC and a HOSTFILE");
    tutti_result_t result = fabric_load(argv[optind + 1], &fabric);
    if (!result)
        result = host_list_load(argv[optind + 2], &fabric, w.format == FORMAT_LINES, &list);
    if (!result)
        result = sort(&w, &fabric, &list);
    code = result ? failure("hostfile", "%s", error_last()) : EXIT_OK;
    host_list_free(&list);
    fabric_free(&fabric);
    text_flush();
    const char *lost = text_lost();
    return lost && code == EXIT_OK ? failure("hostfile", "cannot write the output: %s", lost) : code;
}
