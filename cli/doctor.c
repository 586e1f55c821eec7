/* SPDX-License-Identifier: Apache-2.0 */
/* tutti doctor: what the library wants otherwise on this machine, the cost, and the command that mends it. */
#include "cli/doctor.h"
#include "cli/cli.h"
#include "cli/options.h"

#include "base/affinity.h"
#include "base/guess.h"
#include "base/log.h"
#include "base/param.h"
#include "cli/trace_values.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct doctor_row checks[] = {
    {"boxes", "room for black boxes", doctor_boxes},
    {"shared", "memory that ranks share", doctor_shared},
    {"attach", "reading one another's memory (cross-memory attach)", doctor_attach},
    {"memlock", "memory that may be locked", doctor_memlock},
    {"files", "open files", doctor_files},
    {"pages", "huge pages", doctor_pages},
    {"processors", "processors that may be used", doctor_processors},
    {"quota", "control groups' limit of processor time", doctor_quota},
    {"clock", "source and cost of time", doctor_clock},
    {"interfaces", "network interfaces", doctor_interfaces},
    {"mtu", "longest packets", doctor_mtu},
    {"tcp", "TCP's buffers and queues", doctor_tcp},
    {"gpus", "GPUs, their driver and links", doctor_gpus},
    {"rdma", "RDMA devices and their addresses", doctor_rdma},
    {"namespaces", "containers' namespaces", doctor_namespaces},
    {"parameters", "environment variables of the library", doctor_parameters},
};
enum { ROWS = sizeof checks / sizeof *checks };

struct doctor_wishes {
    int ranks;
    bool json, wanted[ROWS];
};

/* ---- Telling ---- */

/* Colours are for eyes: not in a pipe, and not where the user refuses them (no-color.org). */
static bool with_colours(void)
{
    const char *terminal = getenv("TERM"), *refused = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && !(refused && *refused) && terminal && strcmp(terminal, "dumb") != 0;
}

/* Prints one line in a pipe; on a terminal, cost and remedy stand below. */
static void print_result(const struct doctor_row *row, const struct doctor_result *result)
{
    static const char *const colours[] = {"\033[32m", "\033[33m", "\033[1;31m"};
    bool colours_on = with_colours();
    const char *next = isatty(STDOUT_FILENO) ? "\n                   " : " | ";
    printf("%s%-6s%s %-11s %s", colours_on ? colours[result->state] : "", doctor_state_name(result->state),
           colours_on ? "\033[0m" : "", row->name, result->found);
    if (result->state != DOCTOR_OK)
        printf("%scosts: %s%smend: %s", next, result->cost, next, result->remedy);
    putchar('\n');
}

static void print_sum(const int *sums)
{
    int all = sums[DOCTOR_OK] + sums[DOCTOR_WARN] + sums[DOCTOR_WRONG];
    if (sums[DOCTOR_OK] == all)
        printf("%d check%s: all is well\n", all, all == 1 ? "" : "s");
    else
        printf("%d check%s: %d wrong, %d could be better, %d well\n", all, all == 1 ? "" : "s", sums[DOCTOR_WRONG],
               sums[DOCTOR_WARN], sums[DOCTOR_OK]);
}

static json_t *result_json(const struct doctor_row *row, const struct doctor_result *result)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "check", row->name, "subject", row->subject, "state",
                     doctor_state_name(result->state), "found", view_text_json(result->found), "costs",
                     view_text_json(result->cost), "mend", view_text_json(result->remedy));
}

static enum doctor_state worst(const int *sums)
{
    return sums[DOCTOR_WRONG] ? DOCTOR_WRONG : sums[DOCTOR_WARN] ? DOCTOR_WARN : DOCTOR_OK;
}

static int print_json(json_t *told, const int *sums, int ranks)
{
    json_t *all = json_pack("{s:i, s:s, s:i, s:o}", "version", 1, "state", doctor_state_name(worst(sums)), "ranks",
                            ranks, "checks", told);
    bool fine = all && json_dumpf(all, stdout, JSON_INDENT(1)) == 0 && putchar('\n') != EOF && fflush(stdout) == 0;
    json_decref(all);
    return fine ? EXIT_OK : failure("doctor", "cannot write the output: %s", strerror(errno));
}

/* ---- Looking ---- */

static void look_around(struct doctor *doctor)
{
    const struct view_options all = {
        .command = "doctor", .dir = param_string(PARAM_TRACE_DIR), .quiet = true, .dead = true};
    if (access(all.dir, R_OK | X_OK) != 0 || !view_load(&all, &doctor->boxes))
        doctor->boxes = (struct view_set){0};
    topology_read_devices(&doctor->devices, "");
}

static int examine(const struct doctor_wishes *wishes)
{
    static const int codes[] = {EXIT_OK, VIEW_SLOW, VIEW_HANGS};
    struct doctor doctor = {.ranks = wishes->ranks};
    json_t *told = wishes->json ? json_array() : NULL;
    int sums[3] = {0}, code = EXIT_OK;
    look_around(&doctor);
    for (int i = 0; i < ROWS; i++) {
        struct doctor_result result = {DOCTOR_OK};
        if (!wishes->wanted[i])
            continue;
        checks[i].look(&doctor, &result);
        sums[result.state]++;
        if (wishes->json)
            json_array_append_new(told, result_json(&checks[i], &result));
        else
            print_result(&checks[i], &result);
    }
    if (wishes->json)
        code = print_json(told, sums, wishes->ranks);
    else
        print_sum(sums);
    view_unload(&doctor.boxes);
    free(doctor.devices.nodes);
    return code ? code : codes[worst(sums)];
}

/* ---- Options ---- */

static int default_ranks(void)
{
    int64_t told = param_int(PARAM_LOCAL_SIZE);
    int processors = affinity_count(NULL);
    return told > 0 ? (int)told : processors > 0 ? processors : 1;
}

static const struct option_row rows[] = {
    {'n', "ranks", "N", "ranks that shall run on this host (default: TUTTI_LOCAL_SIZE, else a rank for each processor)",
     TO_INT(struct doctor_wishes, ranks, 1, 1 << 20)},
    {'j', "json", NULL, "print JSON, for programs", TO_FLAG(struct doctor_wishes, json)},
};

static void offer_checks(int place, char **words)
{
    (void)place, (void)words;
    for (int i = 0; i < ROWS; i++)
        options_offer(checks[i].name, checks[i].subject);
}

static void list_checks(void)
{
    for (int i = 0; i < ROWS; i++)
        printf("  %-11s %s\n", checks[i].name, checks[i].subject);
}

static const struct options options_of_doctor = {
    .command = "doctor",
    .usage = "[OPTION...] [CHECK...]",
    .before = "Looks at this machine as the library will find it: a line for each check, with what was found and, if "
              "that is not well, what it costs and what mends it. Nothing is changed. Run it where ranks will run: in "
              "the container, under the limits.",
    .after = "Exit status: 0 all is well, 1 the output cannot be written, 2 wrong options, 5 something is wrong, 6 "
             "something could be better.\n"
             "\n"
             "Checks (all, if none is named):",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
    .words = offer_checks,
    .more = list_checks,
};

static int choose(const char *word, struct doctor_wishes *wishes)
{
    const char *names[ROWS];
    for (int i = 0; i < ROWS; i++) {
        names[i] = checks[i].name;
        if (strcmp(word, checks[i].name) == 0) {
            wishes->wanted[i] = true;
            return -1;
        }
    }
    const char *near = guess_name(word, names, ROWS);
    if (near)
        return usage_error("doctor", "there is no check \"%s\". Did you mean \"%s\"?", word, near);
    return usage_error("doctor", "there is no check \"%s\"", word);
}

/* Returns an exit status, or -1: go on. */
static int parse(int argc, char **argv, struct doctor_wishes *wishes)
{
    int code = options_parse(&options_of_doctor, argc, argv, wishes);
    for (int i = 0; optind == argc && i < ROWS; i++)
        wishes->wanted[i] = true;
    for (int i = optind; i < argc && code < 0; i++)
        code = choose(argv[i], wishes);
    return code;
}

int cmd_doctor(int argc, char **argv)
{
    struct doctor_wishes wishes = {0};
    param_int(PARAM_DEBUG);
    param_values[PARAM_DEBUG].number = LOG_NONE; /* the checks report what they find */
    int code = parse(argc, argv, &wishes);
    if (code >= 0)
        return code;
    wishes.ranks = wishes.ranks ? wishes.ranks : default_ranks();
    return examine(&wishes);
}
