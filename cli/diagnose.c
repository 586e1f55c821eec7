/* SPDX-License-Identifier: Apache-2.0 */
/* tutti diagnose: two looks at black boxes and their processes, and who is to blame. */
#include "trace.h"

#include "base/clock.h"
#include "base/param.h"
#include "base/parse.h"
#include "diagnosis/process.h"
#include "verdict/verdict.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STUCK_NS      (2 * NS_PER_S)
#define APART_MS      1000
#define APART_MAX     (3600 * 1000)
#define CONFIRMATIONS 2 /* looks more, where something seems slow */

static const char help[] = "Usage: tutti diagnose [OPTION...] [PID | COMMUNICATOR | FILE...]\n"
                           "Says who is to blame when a job hangs or is slow: one sentence, the evidence,\n"
                           "and what to do. Looks twice at the black boxes of this user's processes and at\n"
                           "the processes themselves; or once at the files that are named, also of many\n"
                           "hosts: black boxes, dumps of PyTorch's Flight Recorder (pickle or JSON, named by\n"
                           "their ranks), NCCL's RAS (ncclras -f json), NCCLX (ncclCommDumpAll). Nothing has\n"
                           "to run before.\n"
                           "\n"
                           "  -d, --dead                  dead processes, too; else only those that living\n"
                           "                              ones have to do with\n"
                           "      --stuck TIME            a rank that is in the same step for so long stands\n"
                           "                              still (default 2s)\n"
                           "      --apart TIME            from the first look to the second (default 1s); 0:\n"
                           "                              one look, which tells nothing of processors\n"
                           "  -n, --network               first, is it the network: where the time of the\n"
                           "                              ranks went, step by step, and what interfaces\n"
                           "                              carried, by what the black boxes remember\n"
                           "  -j, --json                  for programs\n"
                           "      --dir DIR               look here instead of in TUTTI_TRACE_DIR\n"
                           "  -h, --help                  this text\n"
                           "\n"
                           "Exit status: 0 nothing wrong was found, 1 a file named cannot be read, 2 wrong\n"
                           "options, 3 no such process, communicator or file, 4 nothing to look at, 5 a hang\n"
                           "or a failure, 6 something is slow.\n";

enum { OPT_STUCK = 256, OPT_APART, OPT_DIR };

static const struct option longs[] = {
    {"dead", no_argument, NULL, 'd'},
    {"stuck", required_argument, NULL, OPT_STUCK},
    {"apart", required_argument, NULL, OPT_APART},
    {"network", no_argument, NULL, 'n'},
    {"json", no_argument, NULL, 'j'},
    {"dir", required_argument, NULL, OPT_DIR},
    {"help", no_argument, NULL, 'h'},
    {0},
};

struct order {
    struct view_options view;
    int64_t apart_ms;
    bool network;
};

static bool parse_time(const char *option, const char *text, int64_t *ms)
{
    if (parse_ms(text, ms) && *ms >= 0 && *ms <= APART_MAX)
        return true;
    fprintf(stderr, "tutti diagnose: %s %s: want a time up to an hour, such as 500ms or 30s\n", option, text);
    return false;
}

/* An exit status, or -1: go on. */
static int parse_option(int option, struct order *order)
{
    int64_t ms = 0;
    switch (option) {
    case 'd':
        order->view.dead = true;
        return -1;
    case 'j':
        order->view.json = true;
        return -1;
    case 'n':
        order->network = true;
        return -1;
    case OPT_DIR:
        order->view.dir = optarg;
        return -1;
    case OPT_APART:
        return parse_time("--apart", optarg, &order->apart_ms) ? -1 : VIEW_WRONG;
    case OPT_STUCK:
        if (!parse_time("--stuck", optarg, &ms))
            return VIEW_WRONG;
        order->view.stuck = (uint64_t)ms * NS_PER_MS;
        return -1;
    case 'h':
        fputs(help, stdout);
        return VIEW_SHOWN;
    default:
        fprintf(stderr, "See: tutti help diagnose\n");
        return VIEW_WRONG;
    }
}

static bool is_number(const char *text)
{
    return *text && text[strspn(text, "0123456789")] == 0;
}

/* A number is a process, what is there is a file, anything else one word is a communicator. */
static int parse_subject(char **words, int count, struct view_options *view)
{
    bool files =
        count > 1 || (count && (strchr(words[0], '/') || (!is_number(words[0]) && access(words[0], F_OK) == 0)));
    if (files) {
        view->files = words;
        view->file_count = count;
    } else if (count && is_number(words[0]) &&
               (!parse_int(words[0], &view->pid) || view->pid < 1 || view->pid > INT32_MAX)) {
        fprintf(stderr, "tutti diagnose: %s: want the number of a process\n", words[0]);
        return VIEW_WRONG;
    } else if (count && !is_number(words[0])) {
        view->comm = words[0];
    }
    return -1;
}

static int parse_options(int argc, char **argv, struct order *order)
{
    int option, status = -1;
    optind = 0;
    while (status < 0 && (option = getopt_long(argc, argv, "djhn", longs, NULL)) != -1)
        status = parse_option(option, order);
    return status < 0 ? parse_subject(argv + optind, argc - optind, &order->view) : status;
}

/* ---- Looking ---- */

struct seen {
    struct view_set set;
    struct process_facts *facts;
};

static bool look_at(const struct view_options *options, struct seen *seen)
{
    if (!view_load(options, &seen->set))
        return false;
    seen->facts = process_facts_read(seen->set.boxes, seen->set.count);
    return true;
}

static void forget(struct seen *seen)
{
    view_unload(&seen->set);
    free(seen->facts);
}

static bool someone_lives(const struct view_set *set)
{
    return set->count && set->boxes[0]->alive; /* the living come first */
}

static size_t count_comms(const struct view_set *set)
{
    size_t count, found = 0;
    struct view_member *members = view_members(set, &count);
    for (size_t at = 0; at < count; at += view_group(members, count, at))
        found++;
    free(members);
    return found;
}

/* ---- Telling ---- */

static void print_all(const struct view_set *set, const struct findings *findings, bool twice, int64_t apart_ms)
{
    for (size_t i = 0; i < findings->count; i++)
        verdict_print(stdout, &findings->items[i]);
    if (findings->left_out)
        printf("(%zu more)\n", findings->left_out);
    if (findings->count)
        return;
    size_t comms = count_comms(set);
    printf("nothing wrong was found: %zu process%s, %zu communicator%s, ", set->count, set->count == 1 ? "" : "es",
           comms, comms == 1 ? "" : "s");
    if (twice)
        printf("looked at twice or more, %s apart\n", word_time((uint64_t)apart_ms * NS_PER_MS).text);
    else
        printf("looked at once\n");
}

static bool print_json(const struct view_set *set, const struct findings *findings,
                       const struct network_report *network)
{
    json_t *all = json_pack("{s:i, s:I, s:I, s:o}", "version", 1, "processes", (json_int_t)set->count, "left_out",
                            (json_int_t)findings->left_out, "findings", view_findings_json(findings));
    if (all && network)
        json_object_set_new(all, "network", verdict_network_json(network, findings));
    bool fine = all && json_dumpf(all, stdout, JSON_INDENT(1)) == 0 && putchar('\n') != EOF && fflush(stdout) == 0;
    json_decref(all);
    if (!fine)
        fprintf(stderr, "tutti diagnose: cannot write the output: %s\n", strerror(errno));
    return fine;
}

static int status_of(const struct view_options *options, const struct view_set *set, const struct findings *findings)
{
    if (findings->count)
        return finding_is_hang(findings->items[0].kind) ? VIEW_HANGS : VIEW_SLOW;
    if (set->missing || set->broken)
        return set->missing ? VIEW_MISSING : VIEW_FAILED;
    if (set->count)
        return VIEW_SHOWN;
    return options->pid || options->comm ? VIEW_MISSING : VIEW_NOTHING;
}

static void say_nothing(const struct view_set *set)
{
    fprintf(stderr, "tutti diagnose: no black box%s here", set->hidden ? " of a living process" : "");
    if (set->hidden)
        fprintf(stderr, "; %zu of dead ones: --dead looks at them", set->hidden);
    fputc('\n', stderr);
}

static struct findings find(const struct order *order, const struct seen *before, const struct seen *now)
{
    const struct snapshot snapshot = {.now = {now->set.boxes, now->facts, now->set.count},
                                      .before = {before->set.boxes, before->facts, before->set.count},
                                      .stuck = order->view.stuck};
    return diagnosis_find(&snapshot);
}

/* What was seen becomes what was seen before. False: nothing could be read. */
static bool look_again(const struct order *order, struct seen *before, struct seen *now)
{
    forget(before);
    *before = *now;
    *now = (struct seen){0};
    poll(NULL, 0, (int)order->apart_ms);
    return look_at(&order->view, now);
}

static bool is_slow(const struct findings *findings)
{
    return findings->count && !finding_is_hang(findings->items[0].kind);
}

/* What is slow must be so in all looks: a second without a processor, or ten calls, may be chance. */
static bool confirm(const struct order *order, struct seen *before, struct seen *now, struct findings *findings)
{
    for (int more = 0; more < CONFIRMATIONS && is_slow(findings); more++) {
        if (!look_again(order, before, now))
            return false;
        struct findings latest = find(order, before, now);
        findings_confirm(&latest, findings);
        findings_free(findings);
        *findings = latest;
    }
    return true;
}

static bool look_at_network(const struct order *order, const struct view_set *set, struct network_report *report)
{
    const struct snapshot snapshot = {.now = {set->boxes, NULL, set->count}, .stuck = order->view.stuck};
    bool fine = network_look(&snapshot, report);
    if (!fine)
        fprintf(stderr, "tutti diagnose: no memory to look at the network\n");
    return fine;
}

static int tell(const struct order *order, const struct view_set *set, const struct findings *findings, bool twice)
{
    int status = status_of(&order->view, set, findings);
    struct network_report network = {0};
    if (order->network && !look_at_network(order, set, &network))
        status = VIEW_FAILED;
    else if (order->view.json)
        status = print_json(set, findings, order->network ? &network : NULL) ? status : VIEW_FAILED;
    else if (set->count) {
        verdict_print_network(stdout, &network, findings);
        print_all(set, findings, twice, order->apart_ms);
    } else
        say_nothing(set);
    network_free(&network);
    return status;
}

static int diagnose(const struct order *order)
{
    struct seen before = {0}, now = {0};
    struct findings findings = {0};
    int status = VIEW_FAILED;
    bool seen = look_at(&order->view, &now), twice = seen && order->apart_ms && someone_lives(&now.set);
    if (twice)
        seen = look_again(order, &before, &now);
    if (seen)
        findings = find(order, &before, &now);
    if (seen && (!twice || confirm(order, &before, &now, &findings)))
        status = tell(order, &now.set, &findings, twice);
    findings_free(&findings);
    forget(&before);
    forget(&now);
    return status;
}

int cmd_diagnose(int argc, char **argv)
{
    struct order order = {.view = {.command = "diagnose", .dir = param_string(PARAM_TRACE_DIR), .stuck = STUCK_NS},
                          .apart_ms = APART_MS};
    int status = parse_options(argc, argv, &order);
    return status < 0 ? diagnose(&order) : status;
}
