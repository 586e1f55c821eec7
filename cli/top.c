/* SPDX-License-Identifier: Apache-2.0 */
/* tutti top: a screen over all black boxes of this host, or one frame of it as text. */
#include "cli/top.h"
#include "cli/cli.h"
#include "cli/options.h"

#include "base/clock.h"
#include "base/param.h"
#include "base/parse.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <string.h>

#define INTERVAL_MIN 50 /* ms */

struct cli_top_order {
    struct view_options options;
    struct top_view view;
    uint64_t interval; /* ns */
    bool once;
};

static int take_sort(void *request, const char *text)
{
    int order = options_index(TOP_ORDER_NAMES, text);
    if (order < 0)
        return OPTION_REFUSED;
    ((struct cli_top_order *)request)->view.order = (enum top_order)order;
    return OPTION_TAKEN;
}

static int take_filter(void *request, const char *text)
{
    struct top_view *view = &((struct cli_top_order *)request)->view;
    snprintf(view->filter, sizeof view->filter, "%s", text);
    return OPTION_TAKEN;
}

#define O struct cli_top_order
static const struct option_row rows[] = {
    {'1', "once", NULL, "print one frame as text, with all processes, and end", TO_FLAG(O, once)},
    {'i', "interval", "TIME", "from look to look (default 1s)", TO_TIME(O, interval, INTERVAL_MIN)},
    {'s', "sort", "NAME", "order of the processes (default rank)", .choices = TOP_ORDER_NAMES,
     TO_CALL(take_sort, NULL)},
    {'f', "filter", "TEXT", "only processes whose line or communicators contain TEXT", TO_CALL(take_filter, NULL)},
    {'d', "dead", NULL, "also dead processes; without, only those that share a communicator with a living one",
     TO_FLAG(O, options.dead)},
    {0, "stuck", "TIME", "an operation that is unfinished for TIME is a hang (default 2s)",
     TO_TIME(O, options.stuck, 0)},
    {0, "dir", "DIR", "read the black boxes in DIR instead of those in TUTTI_TRACE_DIR", TO_TEXT(O, options.dir)},
};
#undef O

static const struct options options_of_top = {
    .command = "top",
    .usage = "[OPTION...]",
    .before = "A screen over all processes of this user that use tutti (root's: everybody's), read from their black "
              "boxes. It shows what stands still, and for each process its operations a second, mean bus bandwidth, "
              "megabytes sent a second, current operation and for whom it waits. Below are lanes to other processes. "
              "The processes are not disturbed.",
    .after = "Keys: q ends, s sorts by the next column, / filters (Enter keeps the filter, Escape drops it), space "
             "pauses, arrows and page keys move among the processes.\n"
             "Exit status: 0 ended or printed, 1 no terminal, or the boxes cannot be looked for, 2 wrong options, 4 "
             "with --once: no "
             "process, 5 with --once: something stands still or has failed, 6 with --once: something is slow.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
};

static int parse(int argc, char **argv, struct cli_top_order *order)
{
    int code = options_parse(&options_of_top, argc, argv, order);
    if (code < 0 && optind < argc)
        return usage_error("top", "takes no arguments, got %s", argv[optind]);
    return code;
}

static int print_frame(const struct top_look *before, const struct top_look *now, const struct cli_top_order *order)
{
    const struct top_window whole = {.width = 80};
    struct top_frame frame = top_frame(before, now, &order->view, &whole);
    for (size_t i = 0; i < frame.count; i++)
        printf("%s\n", frame.lines[i].text);
    top_frame_free(&frame);
    if (fflush(stdout) == EOF)
        return failure("top", "cannot write the output: %s", strerror(errno));
    if (findings_faults(&now->findings))
        return finding_is_hang(now->findings.items[0].kind) ? VIEW_HANGS : VIEW_SLOW;
    return now->set.count ? VIEW_SHOWN : VIEW_NOTHING;
}

static int once(const struct cli_top_order *order)
{
    const struct top_look never = {0};
    struct top_look before, now;
    int code = EXIT_FAILED;
    if (!top_look(&order->options, &never, &before))
        return EXIT_FAILED;
    poll(NULL, 0, (int)(order->interval / NS_PER_MS));
    if (top_look(&order->options, &before, &now)) {
        code = print_frame(&before, &now, order);
        top_forget(&now);
    }
    top_forget(&before);
    return code;
}

int cmd_top(int argc, char **argv)
{
    struct view_past past = {0};
    struct cli_top_order order = {.options = {.past = &past,
                                              .command = "top",
                                              .dir = param_string(PARAM_TRACE_DIR),
                                              .stuck = 2 * NS_PER_S,
                                              .quiet = true},
                                  .interval = NS_PER_S};
    int code = parse(argc, argv, &order);
    if (code >= 0)
        return code;
    if (order.once)
        code = once(&order);
    else if (top_screen)
        code = top_screen(&order.options, &order.view, (int)(order.interval / NS_PER_MS));
    else
        code = failure("top", "this program was built without ncurses: it can only print, with --once");
    view_free_past(&past);
    return code;
}
