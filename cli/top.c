/* SPDX-License-Identifier: Apache-2.0 */
/* tutti top: a screen over all black boxes of this host, or one frame of it as text. */
#include "top.h"
#include "cli.h"

#include "base/clock.h"
#include "base/param.h"
#include "base/parse.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <string.h>

#define INTERVAL_MS  1000
#define INTERVAL_MIN 50
#define INTERVAL_MAX (3600 * 1000)

static const char help[] = "Usage: tutti top [OPTION...]\n"
                           "A screen over all processes of this user that use tutti (root's: everybody's),\n"
                           "read from their black boxes: what stands still, and for each process its\n"
                           "operations a second, mean bus bandwidth, megabytes sent a second, current\n"
                           "operation and for whom it waits; below them, lanes to other processes. The\n"
                           "processes are not disturbed.\n"
                           "\n"
                           "  -1, --once           print one frame as text, all of it, and end\n"
                           "  -i, --interval TIME  from look to look (default 1s)\n"
                           "  -s, --sort NAME      rank (default), operations, bandwidth, wait or pid\n"
                           "  -f, --filter TEXT    only processes whose line or communicators hold it\n"
                           "  -d, --dead           dead processes, too, after the living; else only those\n"
                           "                       that living ones have to do with\n"
                           "      --stuck TIME     unfinished for so long is a hang (default 2s)\n"
                           "      --dir DIR        look here instead of in TUTTI_TRACE_DIR\n"
                           "  -h, --help           this text\n"
                           "\n"
                           "Keys: q ends, s sorts by the next column, / filters (Enter keeps the filter,\n"
                           "Escape drops it), space pauses, arrows and page keys move among the processes.\n"
                           "Exit status: 0, 1 no terminal, or the boxes cannot be looked for, 2 wrong\n"
                           "options, 4 with --once: no process, 5 with --once: something stands still or has\n"
                           "failed, 6 with --once: something is slow.\n";

enum { OPTION_STUCK = 256, OPTION_DIR };

static const struct option longs[] = {
    {"once", no_argument, NULL, '1'},
    {"interval", required_argument, NULL, 'i'},
    {"sort", required_argument, NULL, 's'},
    {"filter", required_argument, NULL, 'f'},
    {"dead", no_argument, NULL, 'd'},
    {"stuck", required_argument, NULL, OPTION_STUCK},
    {"dir", required_argument, NULL, OPTION_DIR},
    {"help", no_argument, NULL, 'h'},
    {0},
};

struct order {
    struct view_options options;
    struct top_view view;
    int interval_ms;
    bool once;
};

static int parse_time(const char *option, const char *text, int64_t low, int64_t *ms)
{
    if (parse_ms(text, ms) && *ms >= low && *ms <= INTERVAL_MAX)
        return -1;
    return usage_error("top", "%s wants a time from %jdms to an hour, such as 500ms or 2s, got \"%s\"", option,
                       (intmax_t)low, text);
}

static int parse_sort(const char *text, enum top_order *order)
{
    const char *names[TOP_ORDERS];
    for (int i = 0; i < TOP_ORDERS; i++)
        names[i] = top_order_name((enum top_order)i);
    for (int i = 0; i < TOP_ORDERS; i++)
        if (strcmp(text, names[i]) == 0) {
            *order = (enum top_order)i;
            return -1;
        }
    const char *near = text_nearest(text, names, TOP_ORDERS);
    return usage_error("top", "--sort %s: %s%s%s", text,
                       near ? "did you mean " : "want rank, operations, bandwidth, wait or pid", near ? near : "",
                       near ? "?" : "");
}

/* An exit status, or -1: go on. */
static int parse_option(int option, struct order *order)
{
    int64_t ms = order->interval_ms, stuck = (int64_t)(order->options.stuck / NS_PER_MS);
    int code = -1;
    switch (option) {
    case '1':
        order->once = true;
        return -1;
    case 'i':
        code = parse_time("--interval", optarg, INTERVAL_MIN, &ms);
        order->interval_ms = (int)ms;
        return code;
    case 's':
        return parse_sort(optarg, &order->view.order);
    case 'f':
        snprintf(order->view.filter, sizeof order->view.filter, "%s", optarg);
        return -1;
    case 'd':
        order->options.dead = true;
        return -1;
    case OPTION_STUCK:
        code = parse_time("--stuck", optarg, 0, &stuck);
        order->options.stuck = (uint64_t)stuck * NS_PER_MS;
        return code;
    case OPTION_DIR:
        order->options.dir = optarg;
        return -1;
    case 'h':
        fputs(help, stdout);
        return EXIT_OK;
    default:
        return usage_error("top", "that option is not known, or lacks its value");
    }
}

static int parse(int argc, char **argv, struct order *order)
{
    static char name[] = "tutti top";
    int option, code = -1;
    argv[0] = name;
    optind = 1;
    while (code < 0 && (option = getopt_long(argc, argv, "1i:s:f:dh", longs, NULL)) != -1)
        code = parse_option(option, order);
    if (code < 0 && optind < argc)
        return usage_error("top", "takes no arguments, got %s", argv[optind]);
    return code;
}

static int print_frame(const struct top_look *before, const struct top_look *now, const struct order *order)
{
    const struct top_window whole = {.width = 80};
    struct top_frame frame = top_frame(before, now, &order->view, &whole);
    for (size_t i = 0; i < frame.count; i++)
        printf("%s\n", frame.lines[i].text);
    top_frame_free(&frame);
    if (fflush(stdout) == EOF)
        return failure("top", "cannot write the output: %s", strerror(errno));
    if (now->findings.count)
        return finding_is_hang(now->findings.items[0].kind) ? VIEW_HANGS : VIEW_SLOW;
    return now->set.count ? VIEW_SHOWN : VIEW_NOTHING;
}

static int once(const struct order *order)
{
    const struct top_look never = {0};
    struct top_look before, now;
    int code = EXIT_FAILED;
    if (!top_look(&order->options, &never, &before))
        return EXIT_FAILED;
    poll(NULL, 0, order->interval_ms);
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
    struct order order = {.options = {.past = &past,
                                      .command = "top",
                                      .dir = param_string(PARAM_TRACE_DIR),
                                      .stuck = 2 * NS_PER_S,
                                      .quiet = true},
                          .interval_ms = INTERVAL_MS};
    int code = parse(argc, argv, &order);
    if (code >= 0)
        return code;
    if (order.once)
        code = once(&order);
    else if (top_screen)
        code = top_screen(&order.options, &order.view, order.interval_ms);
    else
        code = failure("top", "this program was built without ncurses: it can only print, with --once");
    view_free_past(&past);
    return code;
}
