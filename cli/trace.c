/* SPDX-License-Identifier: Apache-2.0 */
/* tutti trace: reads the black boxes of running and dead processes. Options and errands; each output has its own file.
 */
#include "trace.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/param.h"
#include "base/parse.h"
#include "wire/boxfile.h"

#include <getopt.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] = "Usage: tutti trace [OPTION...] [BOX...]\n"
                           "Shows what the processes of this user do, or did when they died: communicators,\n"
                           "their last operations, who waits for whom, and a verdict when something stands\n"
                           "still. Reads the black boxes in TUTTI_TRACE_DIR, or the files named.\n"
                           "\n"
                           "  -a, --all-ops               every operation and event that is remembered, not\n"
                           "                              only the last\n"
                           "  -p, --pid PID               only this process\n"
                           "  -c, --comm NAME|ID          only this communicator\n"
                           "  -d, --dead                  dead processes, too, after the living; else only\n"
                           "                              those that living ones have to do with\n"
                           "      --stuck TIME            unfinished for so long is a hang (default 1s)\n"
                           "  -s, --summary               the verdict first, then one line for each\n"
                           "                              communicator\n"
                           "  -f, --follow                print operations and events as they happen, until\n"
                           "                              the processes end\n"
                           "  -j, --json                  everything, also of lanes, for programs\n"
                           "      --lanes                 bandwidth of the lanes to other processes, and why\n"
                           "                              it is low; again and again with --follow\n"
                           "      --plot FILE             with --lanes: a picture of it over time, as SVG\n"
                           "      --window N              with --lanes: bandwidth of N segments at a time, 1 to\n"
                           "                              128 (default 8)\n"
                           "      --profile               what each collective took (registering, control words,\n"
                           "                              data), how busy lanes are, and whose are slow\n"
                           "      --counters              what the processes counted\n"
                           "      --perfetto FILE         a timeline for ui.perfetto.dev or chrome://tracing\n"
                           "      --flight-recorder PRE   one file a rank, PRE followed by the rank, as\n"
                           "                              PyTorch's Flight Recorder writes them: JSON\n"
                           "      --pickle                with --flight-recorder: a pickle, which\n"
                           "                              torchfrtrace reads\n"
                           "      --clean                 remove the boxes of this user's dead processes,\n"
                           "                              and half-made ones\n"
                           "      --dir DIR               look here instead of in TUTTI_TRACE_DIR\n"
                           "  -h, --help                  this text\n"
                           "\n"
                           "Exit status: 0 shown, 1 a file named cannot be read or an output not be written,\n"
                           "2 wrong options, 3 no such process, communicator or file, 4 nothing to show, 5\n"
                           "with --summary: something stands still or has failed.\n";

enum {
    OPT_STUCK = 256,
    OPT_COUNTERS,
    OPT_PERFETTO,
    OPT_RECORDER,
    OPT_PICKLE,
    OPT_CLEAN,
    OPT_DIR,
    OPT_LANES,
    OPT_PLOT,
    OPT_PROFILE,
    OPT_WINDOW,
};

static const struct option longs[] = {
    {"all-ops", no_argument, NULL, 'a'},
    {"pid", required_argument, NULL, 'p'},
    {"comm", required_argument, NULL, 'c'},
    {"dead", no_argument, NULL, 'd'},
    {"stuck", required_argument, NULL, OPT_STUCK},
    {"summary", no_argument, NULL, 's'},
    {"follow", no_argument, NULL, 'f'},
    {"json", no_argument, NULL, 'j'},
    {"lanes", no_argument, NULL, OPT_LANES},
    {"plot", required_argument, NULL, OPT_PLOT},
    {"window", required_argument, NULL, OPT_WINDOW},
    {"profile", no_argument, NULL, OPT_PROFILE},
    {"counters", no_argument, NULL, OPT_COUNTERS},
    {"perfetto", required_argument, NULL, OPT_PERFETTO},
    {"flight-recorder", required_argument, NULL, OPT_RECORDER},
    {"pickle", no_argument, NULL, OPT_PICKLE},
    {"clean", no_argument, NULL, OPT_CLEAN},
    {"dir", required_argument, NULL, OPT_DIR},
    {"help", no_argument, NULL, 'h'},
    {0},
};

enum parsed { RUN, DONE, WRONG };

static enum parsed parse_stuck(const char *text, struct view_options *options)
{
    int64_t ms;
    if (parse_ms(text, &ms) && ms >= 0) {
        options->stuck = (uint64_t)ms * NS_PER_MS;
        return RUN;
    }
    fprintf(stderr, "tutti trace: --stuck %s: want a time such as 500ms or 30s\n", text);
    return WRONG;
}

static enum parsed parse_pid(const char *text, struct view_options *options)
{
    if (parse_int(text, &options->pid) && options->pid > 0 && options->pid <= INT32_MAX)
        return RUN;
    fprintf(stderr, "tutti trace: --pid %s: want the number of a process\n", text);
    return WRONG;
}

static enum parsed parse_window(const char *text, struct view_options *options)
{
    if (parse_int(text, &options->window) && options->window > 0 && options->window <= WIRE_BOX_SEGMENTS)
        return RUN;
    fprintf(stderr, "tutti trace: --window %s: want a number of segments from 1 to %d\n", text, WIRE_BOX_SEGMENTS);
    return WRONG;
}

static enum parsed parse_long(int option, struct view_options *options)
{
    switch (option) {
    case OPT_STUCK:
        return parse_stuck(optarg, options);
    case OPT_COUNTERS:
        options->counters = true;
        return RUN;
    case OPT_PERFETTO:
        options->perfetto = optarg;
        return RUN;
    case OPT_RECORDER:
        options->recorder = optarg;
        return RUN;
    case OPT_PICKLE:
        options->pickle = true;
        return RUN;
    case OPT_LANES:
        options->lanes = true;
        return RUN;
    case OPT_PROFILE:
        options->profile = true;
        return RUN;
    case OPT_PLOT:
        options->plot = optarg;
        return RUN;
    case OPT_WINDOW:
        return parse_window(optarg, options);
    case OPT_CLEAN:
        options->clean = true;
        return RUN;
    case OPT_DIR:
        options->dir = optarg;
        return RUN;
    default:
        fprintf(stderr, "See: tutti help trace\n");
        return WRONG;
    }
}

static enum parsed parse_option(int option, struct view_options *options)
{
    switch (option) {
    case 'a':
        options->all_ops = true;
        return RUN;
    case 'p':
        return parse_pid(optarg, options);
    case 'c':
        options->comm = optarg;
        return RUN;
    case 'd':
        options->dead = true;
        return RUN;
    case 's':
        options->summary = true;
        return RUN;
    case 'f':
        options->follow = true;
        return RUN;
    case 'j':
        options->json = true;
        return RUN;
    case 'h':
        fputs(help, stdout);
        return DONE;
    default:
        return parse_long(option, options);
    }
}

static enum parsed parse_options(int argc, char **argv, struct view_options *options)
{
    enum parsed parsed = RUN;
    int option;
    optind = 0;
    while (parsed == RUN && (option = getopt_long(argc, argv, "ap:c:dsfjh", longs, NULL)) != -1)
        parsed = parse_option(option, options);
    if (parsed == RUN && options->pickle && !options->recorder) {
        fprintf(stderr, "tutti trace: --pickle goes with --flight-recorder\n");
        return WRONG;
    }
    if (parsed == RUN && options->plot && (!options->lanes || options->follow)) {
        fprintf(stderr, "tutti trace: --plot goes with --lanes, and not with --follow\n");
        return WRONG;
    }
    if (parsed == RUN && options->window && !options->lanes) {
        fprintf(stderr, "tutti trace: --window goes with --lanes\n");
        return WRONG;
    }
    options->files = argv + optind;
    options->file_count = argc - optind;
    return parsed;
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
    if (options->perfetto)
        status |= view_perfetto(options, &set);
    if (options->recorder)
        status |= view_recorder(options, &set);
    if (options->counters)
        status |= view_show_counters(options, &set);
    else if (options->profile)
        status |= view_profile(options, &set);
    else if (options->json && !options->plot)
        status |= view_json(options, &set); /* which has the lanes, too */
    else if (options->lanes)
        status |= view_lanes(options, &set);
    else if (options->summary && set.count)
        found = view_summary(stdout, options, &set) && !found ? VIEW_HANGS : found;
    else if (!options->perfetto && !options->recorder)
        view_table(stdout, options, &set);
    tell_of_the_dead(&set);
    view_unload(&set);
    return status ? status : found;
}

int cmd_trace(int argc, char **argv)
{
    struct view_options options = {.command = "trace", .dir = param_string(PARAM_TRACE_DIR), .stuck = NS_PER_S};
    enum parsed parsed = parse_options(argc, argv, &options);
    if (parsed != RUN)
        return parsed == WRONG ? 2 : 0;
    if (options.clean)
        return clean(&options);
    if (!options.follow)
        return show(&options);
    return options.lanes ? view_follow_lanes(&options) : view_follow(&options);
}
