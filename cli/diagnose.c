/* SPDX-License-Identifier: Apache-2.0 */
/* tutti diagnose: names who is to blame, by two looks at black boxes and their processes. */
#include "cli/trace.h"
#include "cli/trace_set.h"
#include "cli/options.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/param.h"
#include "base/parse.h"
#include "days/days.h"
#include "diagnosis/process.h"
#include "diagnosis/phrase.h"
#include "evidence/evidence.h"
#include "verdict/verdict.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STUCK_NS      (2 * NS_PER_S)
#define APART_NS      NS_PER_S
#define CONFIRMATIONS 2 /* more looks, where something seems slow */

struct diagnose_order {
    struct view_options view;
    uint64_t apart; /* ns */
    bool network, stacks;
    const char *history;
};

#define O struct diagnose_order
static const struct option_row rows[] = {
    {'d', "dead", NULL, "also dead processes; without, only those that share a communicator with a living one",
     TO_FLAG(O, view.dead)},
    {0, "stuck", "TIME", "a rank that stays in one step for TIME stands still (default 2s)", TO_TIME(O, view.stuck, 0)},
    {0, "apart", "TIME",
     "from the first look to the second (default 1s); 0: one look, which tells nothing of "
     "processors",
     TO_TIME(O, apart, 0)},
    {'n', "network", NULL,
     "say first whether it is the network: where the time of the ranks went, step by step, and what "
     "interfaces carried, by what the black boxes remember",
     TO_FLAG(O, network)},
    {'s', "stacks", NULL,
     "also the stacks of those that are named, by py-spy or gdb, which hold a process for a moment, and where their "
     "threads are in the kernel",
     TO_FLAG(O, stacks)},
    {0, "history", "FILE",
     "show what hosts went through, by day, as tutti agent --history or tutti master --days keeps it; looks at no "
     "process",
     TO_TEXT(O, history)},
    {'j', "json", NULL, "print JSON, for programs", TO_FLAG(O, view.json)},
    {0, "dir", "DIR", "read the black boxes in DIR instead of those in TUTTI_TRACE_DIR", TO_TEXT(O, view.dir)},
};
#undef O

static const struct options options_of_diagnose = {
    .command = "diagnose",
    .usage = "[OPTION...] [PID | COMMUNICATOR | FILE... | FOLDER...]",
    .before = "Says who is to blame when a job hangs or is slow: one sentence, the evidence, and what to do. Looks "
              "twice at the black boxes of this user's processes and at the processes themselves; or once at the "
              "files that are named, also of many hosts: black boxes, dumps of PyTorch's Flight Recorder (pickle or "
              "JSON, named by their ranks), NCCL's RAS (ncclras -f json), NCCLX (ncclCommDumpAll). Of a folder, all of "
              "these in it are read, at any depth. Nothing has to be prepared before the job starts.",
    .after = "Exit status: 0 nothing wrong was found. 1: a file that was named cannot be read. 2: wrong options. 3: "
             "what was named is not there. 4: nothing to look at, or not all of it: the black boxes had no room, or "
             "ranks left no dump. 5: a hang or a failure. 6: something is slow.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
};

static bool is_number(const char *text)
{
    return *text && text[strspn(text, "0123456789")] == 0;
}

/* Sorts a word: a number is a process, an existing path is a file, any other word is a communicator. */
static int parse_subject(char **words, int count, struct view_options *view)
{
    bool files =
        count > 1 || (count && (strchr(words[0], '/') || (!is_number(words[0]) && access(words[0], F_OK) == 0)));
    if (files && !view_name_files(view, words, count))
        return VIEW_FAILED;
    if (files && !view->file_count) {
        fprintf(stderr, "tutti diagnose: %s: there are no files in that folder\n", words[0]);
        return VIEW_NOTHING;
    }
    if (files)
        return -1;
    if (count && is_number(words[0]) && (!parse_int(words[0], &view->pid) || view->pid < 1 || view->pid > INT32_MAX)) {
        fprintf(stderr, "tutti diagnose: %s: want the number of a process\n", words[0]);
        return VIEW_WRONG;
    } else if (count && !is_number(words[0])) {
        view->comm = words[0];
    }
    return -1;
}

static int parse_options(int argc, char **argv, struct diagnose_order *order)
{
    int status = options_parse(&options_of_diagnose, argc, argv, order);
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
    struct trace_member *members = view_members(set, &count);
    for (size_t at = 0; at < count; at += view_group(members, count, at))
        found++;
    free(members);
    return found;
}

/* ---- What was not there to look at ---- */

#define MISSED_SHOWN 8

/* Ranks of this group that left no dump, as words; NULL: none, or the boxes are no dumps. Of living processes those of
 * other hosts have no box here. */
static const char *without_dump(const struct trace_member *members, size_t count, char *words, size_t size)
{
    int shown = 0, ranks = members->comm->nranks;
    size_t at = 0, used = 0;
    *words = 0;
    for (int rank = 0; members->box->dumped && rank < ranks && shown <= MISSED_SHOWN; rank++) {
        while (at < count && members[at].comm->rank < rank)
            at++;
        if (at < count && members[at].comm->rank == rank)
            continue;
        if (used < size)
            used += (size_t)snprintf(words + used, size - used, shown++ < MISSED_SHOWN ? " %d" : " ...", rank);
    }
    return shown ? words : NULL;
}

/* Lanes without a place are told of, and counted as before: rules that need their segments judge the others. */
static void say_lanes(FILE *out, const struct view_set *set)
{
    uint64_t lost = 0;
    for (size_t i = 0; i < set->count; i++)
        lost += set->boxes[i]->counters[WIRE_COUNTER_LANES_UNRECORDED];
    if (lost && out)
        fprintf(out,
                "not all was there to look at: %" PRIu64 " lane%s had no place in the black boxes, each of which has "
                "%d\n",
                lost, lost == 1 ? "" : "s", WIRE_BOX_LANES);
}

/* Says what the boxes lack, and whether anything. */
static bool say_gaps(FILE *out, const struct view_set *set)
{
    char words[128];
    uint64_t lost = 0;
    size_t count, processes = 0;
    bool gaps = false;
    struct trace_member *members = view_members(set, &count);
    for (size_t at = 0, group; at < count && !gaps; at += group) {
        group = view_group(members, count, at);
        const char *ranks = without_dump(members + at, group, words, sizeof words);
        gaps = ranks != NULL;
        if (gaps && out)
            fprintf(out, "not all was there to look at: of communicator %s these ranks have no dump:%s\n",
                    *members[at].comm->name ? members[at].comm->name : "(no name)", ranks);
    }
    free(members);
    for (size_t i = 0; i < set->count; i++) {
        lost += set->boxes[i]->counters[WIRE_COUNTER_COMMS_UNRECORDED];
        processes += set->boxes[i]->counters[WIRE_COUNTER_COMMS_UNRECORDED] != 0;
    }
    if (lost && out)
        fprintf(out,
                "not all was there to look at: %" PRIu64 " communicator%s of %zu process%s not in the black boxes, "
                "whose folder or table was full: make room there, or set TUTTI_TRACE_DIR\n",
                lost, lost == 1 ? "" : "s", processes, processes == 1 ? " is" : "es are");
    say_lanes(out, set);
    return gaps || lost;
}

/* ---- Telling ---- */

static void print_stack(const char *lines)
{
    if (lines)
        printf("  stacks:\n");
    for (; lines && *lines; lines += strcspn(lines, "\n"), lines += *lines == '\n')
        printf("    %.*s\n", (int)strcspn(lines, "\n"), lines);
}

static void print_all(const struct view_set *set, const struct findings *findings, const struct evidence *evidence,
                      bool twice, uint64_t apart, bool folders)
{
    for (size_t i = 0; i < findings->count; i++) {
        verdict_print(stdout, &findings->items[i]);
        print_stack(evidence_stack(evidence, i));
    }
    if (findings->left_out)
        printf("(%zu more)\n", findings->left_out);
    if (folders)
        view_say_files(stdout, set);
    bool gaps = say_gaps(stdout, set);
    if (findings_faults(findings))
        return;
    size_t comms = count_comms(set);
    if (!comms) {
        printf("nothing can be said: %zu process%s, and no communicator in what was read\n", set->count,
               set->count == 1 ? "" : "es");
        return;
    }
    printf("nothing wrong was found%s: %zu process%s, %zu communicator%s, ", gaps ? " in what was there" : "",
           set->count, set->count == 1 ? "" : "es", comms, comms == 1 ? "" : "s");
    if (twice)
        printf("looked at twice or more, %s apart\n", phrase_time(apart).text);
    else
        printf("looked at once\n");
}

static bool print_json(const struct view_set *set, const struct findings *findings, const struct evidence *evidence,
                       const struct network_report *network)
{
    json_t *list = view_findings_json(findings);
    for (size_t i = 0; i < findings->count; i++)
        if (evidence_stack(evidence, i))
            json_object_set_new(json_array_get(list, i), "stacks", json_string(evidence_stack(evidence, i)));
    json_t *all = json_pack("{s:i, s:I, s:I, s:o}", "version", 1, "processes", (json_int_t)set->count, "left_out",
                            (json_int_t)findings->left_out, "findings", list);
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
    if (findings_faults(findings))
        return finding_is_hang(findings->items[0].kind) ? VIEW_HANGS : VIEW_SLOW;
    if (set->missing || set->broken)
        return set->missing ? VIEW_MISSING : VIEW_FAILED;
    if (set->count)
        return count_comms(set) && !say_gaps(NULL, set) ? VIEW_SHOWN : VIEW_NOTHING;
    return options->pid || options->comm ? VIEW_MISSING : VIEW_NOTHING;
}

static void say_nothing(const struct view_options *options, const struct view_set *set)
{
    if (options->file_count > options->named || set->strange) {
        fprintf(stderr,
                "tutti diagnose: none of the %d files there is a black box or a dump: want Flight Recorder "
                "dumps named by their ranks, such as trace_rank_3, or answers of ncclras -f json\n",
                options->file_count);
        return;
    }
    if (options->pid || options->comm) {
        view_say_absent(options);
        return;
    }
    fprintf(stderr, "tutti diagnose: no black box%s here", set->hidden ? " of a living process" : "");
    if (set->hidden)
        fprintf(stderr, "; %zu of dead ones: --dead looks at them", set->hidden);
    fputc('\n', stderr);
}

static struct findings find(const struct diagnose_order *order, const struct seen *before, const struct seen *now)
{
    const struct snapshot snapshot = {.now = {now->set.boxes, now->facts, now->set.count},
                                      .before = {before->set.boxes, before->facts, before->set.count},
                                      .stuck = order->view.stuck};
    return diagnosis_find(&snapshot);
}

/* Makes the last look the earlier one. False: nothing could be read. */
static bool look_again(const struct diagnose_order *order, struct seen *before, struct seen *now)
{
    forget(before);
    *before = *now;
    *now = (struct seen){0};
    process_facts_watch(before->facts, before->set.count, order->apart);
    return look_at(&order->view, now);
}

/* Slow ranks must be slow in all looks: a second without a processor, or ten calls, may be chance. */
static bool confirm(const struct diagnose_order *order, struct seen *before, struct seen *now,
                    struct findings *findings)
{
    for (int more = 0; more < CONFIRMATIONS && findings_may_be_chance(findings); more++) {
        if (!look_again(order, before, now))
            return false;
        struct findings latest = find(order, before, now);
        findings_confirm(&latest, findings);
        findings_free(findings);
        *findings = latest;
    }
    return true;
}

static bool look_at_network(const struct diagnose_order *order, const struct view_set *set,
                            struct network_report *report)
{
    const struct snapshot snapshot = {.now = {set->boxes, NULL, set->count}, .stuck = order->view.stuck};
    bool fine = network_look(&snapshot, report);
    if (!fine)
        fprintf(stderr, "tutti diagnose: no memory to look at the network\n");
    return fine;
}

static int tell(const struct diagnose_order *order, const struct view_set *set, const struct findings *findings,
                const struct evidence *evidence, bool twice)
{
    int status = status_of(&order->view, set, findings);
    struct network_report network = {0};
    if (order->network && !look_at_network(order, set, &network))
        status = VIEW_FAILED;
    else if (order->view.json)
        status = print_json(set, findings, evidence, order->network ? &network : NULL) ? status : VIEW_FAILED;
    else if (set->count) {
        verdict_print_network(stdout, &network, findings);
        print_all(set, findings, evidence, twice, order->apart, order->view.file_count > order->view.named);
    } else
        say_nothing(&order->view, set);
    network_free(&network);
    return status;
}

static int diagnose(const struct diagnose_order *order)
{
    struct seen before = {0}, now = {0};
    struct findings findings = {0};
    int status = VIEW_FAILED;
    bool seen = look_at(&order->view, &now), twice = seen && order->apart && someone_lives(&now.set);
    struct evidence *evidence = twice ? evidence_open(&(struct look){now.set.boxes, now.facts, now.set.count}) : NULL;
    if (twice)
        seen = look_again(order, &before, &now);
    if (seen)
        findings = find(order, &before, &now);
    if (seen && (!twice || confirm(order, &before, &now, &findings))) {
        evidence_add(evidence, &(struct look){now.set.boxes, now.facts, now.set.count}, &findings, order->stacks);
        status = tell(order, &now.set, &findings, evidence, twice);
    }
    evidence_close(evidence);
    findings_free(&findings);
    forget(&before);
    forget(&now);
    return status;
}

static int show_history(const char *path)
{
    struct days days;
    int status = VIEW_FAILED;
    if (access(path, F_OK) != 0) {
        fprintf(stderr, "tutti diagnose: %s: %s\n", path, strerror(errno));
        return VIEW_MISSING;
    }
    if (!days_open(&days))
        fprintf(stderr, "tutti diagnose: no memory\n");
    else if (days_load(&days, path) != TUTTI_SUCCESS)
        fprintf(stderr, "tutti diagnose: %s\n", error_last());
    else
        status = VIEW_SHOWN;
    if (status == VIEW_SHOWN)
        days_print(&days, stdout);
    days_close(&days);
    return status;
}

int cmd_diagnose(int argc, char **argv)
{
    struct diagnose_order order = {
        .view = {.command = "diagnose", .dir = param_string(PARAM_TRACE_DIR), .stuck = STUCK_NS}, .apart = APART_NS};
    int status = parse_options(argc, argv, &order);
    if (status < 0)
        status = order.history ? show_history(order.history) : diagnose(&order);
    view_free_files(&order.view);
    return status;
}
