/* SPDX-License-Identifier: Apache-2.0 */
/* tutti trace: reads the black boxes of running and dead processes. Options and errands; each output has its own file.
 */
#include "cli/trace.h"
#include "cli/trace_set.h"
#include "cli/cli.h"
#include "cli/options.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/param.h"
#include "base/parse.h"
#include "wire/boxfile.h"

#include <getopt.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int take_pid(void *request, const char *text)
{
    int64_t pid;
    if (!parse_int(text, &pid) || pid < 1 || pid > INT32_MAX)
        return OPTION_REFUSED;
    ((struct view_options *)request)->pid = pid;
    return OPTION_TAKEN;
}

static int take_window(void *request, const char *text)
{
    int64_t window;
    if (!parse_int(text, &window) || window < 1 || window > WIRE_BOX_SEGMENTS)
        return OPTION_REFUSED;
    ((struct view_options *)request)->window = window;
    return OPTION_TAKEN;
}

#define V struct view_options
static const struct option_row rows[] = {
    {'a', "all-ops", NULL, "every operation and event that is remembered, not only the last", TO_FLAG(V, all_ops)},
    {'p', "pid", "PID", "only this process", TO_CALL(take_pid, "the number of a process")},
    {'c', "comm", "NAME|ID", "only this communicator", TO_TEXT(V, comm)},
    {'d', "dead", NULL, "also dead processes; without, only those that share a communicator with a living one",
     TO_FLAG(V, dead)},
    {0, "stuck", "TIME", "an operation that is unfinished for TIME is a hang (default 1s)", TO_TIME(V, stuck, 0)},
    {'s', "summary", NULL, "the verdict first, then one line for each communicator", TO_FLAG(V, summary)},
    {'f', "follow", NULL, "print operations and events as they happen, until the processes end", TO_FLAG(V, follow)},
    {'j', "json", NULL, "print JSON, for programs: everything, also of lanes", TO_FLAG(V, json)},
    {0, "lanes", NULL, "bandwidth of the lanes to other processes, and why it is low; again and again with --follow",
     TO_FLAG(V, lanes)},
    {0, "plot", "FILE", "with --lanes: a picture of it over time, as SVG", TO_TEXT(V, plot)},
    {0, "window", "N", "with --lanes: bandwidth of N segments at a time, 1 to 128 (default 8)",
     TO_CALL(take_window, "a number of segments from 1 to 128")},
    {0, "profile", NULL,
     "what each collective took (registering, control words, data), how busy lanes are, and whose "
     "are slow",
     TO_FLAG(V, profile)},
    {0, "counters", NULL, "what the processes counted", TO_FLAG(V, counters)},
    {0, "perfetto", "FILE", "write a timeline for ui.perfetto.dev or chrome://tracing", TO_TEXT(V, perfetto)},
    {0, "flight-recorder", "PRE",
     "write one file for each rank, PRE followed by the rank, as PyTorch's Flight Recorder writes "
     "them: JSON",
     TO_TEXT(V, recorder)},
    {0, "pickle", NULL, "with --flight-recorder: a pickle, which torchfrtrace reads", TO_FLAG(V, pickle)},
    {0, "clean", NULL, "remove the boxes of this user's dead processes, and half-made ones", TO_FLAG(V, clean)},
    {0, "dir", "DIR", "read the black boxes in DIR instead of those in TUTTI_TRACE_DIR", TO_TEXT(V, dir)},
};
#undef V

_Static_assert(WIRE_BOX_SEGMENTS == 128, "the words of --window");

static const struct options options_of_trace = {
    .command = "trace",
    .usage = "[OPTION...] [BOX...]",
    .before = "Shows what the processes of this user do, or did when they died: communicators, their last operations, "
              "who waits for whom, and a verdict when something stands still. Reads the black boxes in "
              "TUTTI_TRACE_DIR (files in which each process notes what it does), or the files named.",
    .after = "Exit status: 0 shown; 1 a file cannot be read or written; 2 wrong options; 3 what was named is not "
             "there; 4 nothing to show; 5 with --summary: something stands still or has failed.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
};

static int check(const struct view_options *options)
{
    if (options->pickle && !options->recorder)
        return usage_error("trace", "--pickle goes with --flight-recorder");
    if (options->plot && (!options->lanes || options->follow))
        return usage_error("trace", "--plot goes with --lanes, and not with --follow");
    if (options->window && !options->lanes)
        return usage_error("trace", "--window goes with --lanes");
    return -1;
}

static bool can_go(const struct blackbox *box)
{
    struct stat info;
    return blackbox_gone(box) && lstat(box->path, &info) == 0 && info.st_uid == geteuid();
}

static int clean(const struct view_options *options)
{
    char **paths;
    size_t count, removed = 0, failed = 0;
    if (boxfile_list(options->dir, &paths, &count) != TUTTI_SUCCESS) {
        fprintf(stderr, "tutti trace: %s\n", error_last());
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        struct blackbox *box = NULL;
        bool dead = blackbox_outline(paths[i], &box) == TUTTI_SUCCESS ? can_go(box) : boxfile_abandoned(paths[i]);
        if (dead && (!options->pid || (box && box->header.pid == options->pid))) {
            bool gone = unlink(paths[i]) == 0;
            removed += gone;
            failed += !gone;
        }
        blackbox_free(box);
    }
    printf("removed %zu of %zu black boxes in %s\n", removed, count, options->dir);
    boxfile_free(paths, count);
    return failed ? 1 : 0;
}

static void tell_of_the_dead(const struct view_set *set)
{
    if (set->hidden)
        fprintf(stderr, "%zu dead process%s not shown: --dead shows, --clean removes\n", set->hidden,
                set->hidden == 1 ? " is" : "es are");
    if (set->deserted)
        fprintf(stderr,
                "%zu dead process%s left a box that cannot be read, damaged or of another version: --clean removes %s "
                "after a day\n",
                set->deserted, set->deserted == 1 ? " has" : "es have", set->deserted == 1 ? "it" : "them");
}

static int show(const struct view_options *options)
{
    struct view_set set;
    if (!view_load(options, &set))
        return VIEW_FAILED;
    int status = VIEW_SHOWN, found = set.missing ? VIEW_MISSING : set.broken ? VIEW_FAILED : VIEW_SHOWN;
    if (!found && !set.count)
        found = options->pid || options->comm ? VIEW_MISSING : VIEW_NOTHING;
    if (found == VIEW_MISSING)
        view_say_absent(options);
    if (options->perfetto)
        status |= view_perfetto(options, &set);
    if (options->recorder)
        status |= view_recorder(options, &set);
    if (options->counters)
        status |= view_show_counters(options, &set);
    else if (options->profile)
        status |= view_profile(options, &set);
    else if (options->json && !options->plot)
        status |= view_json(options, &set); /* the JSON has the lanes, too */
    else if (options->lanes)
        status |= view_lanes(options, &set);
    else if (options->summary && set.count)
        found = view_summary(stdout, options, &set) && !found ? VIEW_HANGS : found;
    else if (!options->perfetto && !options->recorder && (set.count || found != VIEW_MISSING))
        view_table(stdout, options, &set);
    tell_of_the_dead(&set);
    view_unload(&set);
    return status ? status : found;
}

int cmd_trace(int argc, char **argv)
{
    struct view_options options = {.command = "trace", .dir = param_string(PARAM_TRACE_DIR), .stuck = NS_PER_S};
    int code = options_parse(&options_of_trace, argc, argv, &options);
    if (code < 0)
        code = check(&options);
    if (code >= 0)
        return code;
    options.files = argv + optind;
    options.file_count = argc - optind;
    options.named = argc - optind;
    if (options.clean)
        return clean(&options);
    if (!options.follow)
        return show(&options);
    return options.lanes ? view_follow_lanes(&options) : view_follow(&options);
}
