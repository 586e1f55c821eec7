/* SPDX-License-Identifier: Apache-2.0 */
/* tutti export: metrics of all processes of this host for Prometheus, once or over HTTP. */
#include "export.h"
#include "cli.h"

#include "base/clock.h"
#include "base/param.h"
#include "base/parse.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

#define EXPORT_ADDRESS "127.0.0.1:9797"
#define EXPORT_STUCK   (10 * NS_PER_S)

static const char help[] = "Usage: tutti export [OPTIONS]\n"
                           "Serves the metrics of all processes of this host that use tutti, read from their\n"
                           "black boxes, for Prometheus to scrape: http://" EXPORT_ADDRESS "/metrics. Root\n"
                           "sees everybody's processes, others their own. The processes are not disturbed.\n"
                           "Who reaches the address may read: keep to loopback where that is not wanted.\n"
                           "\n"
                           "  -l, --listen ADDRESS  where to serve (default " EXPORT_ADDRESS "; port 0: any\n"
                           "                        free one, which is printed)\n"
                           "  -1, --once            print the metrics to standard output instead\n"
                           "      --format NAME     with --once: openmetrics (default) or text, Prometheus'\n"
                           "                        older form\n"
                           "      --stuck TIME      unfinished for so long is a hang (default 10s)\n"
                           "      --dir DIR         look here instead of in TUTTI_TRACE_DIR\n"
                           "  -h, --help            this text\n";

enum { OPTION_FORMAT = 256, OPTION_STUCK, OPTION_DIR };

static const struct option options[] = {
    {"listen", required_argument, NULL, 'l'},
    {"once", no_argument, NULL, '1'},
    {"format", required_argument, NULL, OPTION_FORMAT},
    {"stuck", required_argument, NULL, OPTION_STUCK},
    {"dir", required_argument, NULL, OPTION_DIR},
    {"help", no_argument, NULL, 'h'},
    {0},
};

struct wishes {
    const char *address, *format;
    bool once;
};

static int take_option(int option, char *text, struct wishes *wishes, struct view_options *view)
{
    int64_t ms;
    switch (option) {
    case 'l':
        wishes->address = text;
        return -1;
    case '1':
        wishes->once = true;
        return -1;
    case OPTION_FORMAT:
        wishes->format = text;
        if (strcmp(text, "openmetrics") != 0 && strcmp(text, "text") != 0)
            return usage_error("export", "--format wants openmetrics or text, got \"%s\"", text);
        return -1;
    case OPTION_STUCK:
        if (!parse_ms(text, &ms) || ms < 0)
            return usage_error("export", "--stuck wants a time such as 500ms or 30s, got \"%s\"", text);
        view->stuck = (uint64_t)ms * NS_PER_MS;
        return -1;
    case OPTION_DIR:
        view->dir = text;
        return -1;
    case 'h':
        fputs(help, stdout);
        return EXIT_OK;
    default:
        return usage_error("export", "that option is not known, or lacks its value");
    }
}

static int parse(int argc, char **argv, struct wishes *wishes, struct view_options *view)
{
    int option, code = -1;
    static char name[] = "tutti export";
    argv[0] = name;
    optind = 1;
    while (code < 0 && (option = getopt_long(argc, argv, "l:1h", options, NULL)) != -1)
        code = take_option(option, optarg, wishes, view);
    if (code >= 0)
        return code;
    if (optind < argc)
        return usage_error("export", "takes no arguments, got %s", argv[optind]);
    if (wishes->once && wishes->address)
        return usage_error("export", "--once and --listen exclude each other");
    if (wishes->format && !wishes->once)
        return usage_error("export", "--format goes with --once: over HTTP the reader chooses");
    return -1;
}

static int print_once(struct exporter *exporter, const char *format)
{
    bool text = format && strcmp(format, "text") == 0;
    if (!export_write(exporter, text ? EXPORT_TEXT : EXPORT_OPENMETRICS, stdout))
        return EXIT_FAILED;
    if (fflush(stdout) != 0)
        return failure("export", "cannot write the output: %s", strerror(errno));
    return EXIT_OK;
}

int cmd_export(int argc, char **argv)
{
    struct wishes wishes = {0};
    struct exporter exporter = {
        .view = {.command = "export", .dir = param_string(PARAM_TRACE_DIR), .stuck = EXPORT_STUCK, .quiet = true}};
    exporter.view.past = &exporter.past;
    int code = parse(argc, argv, &wishes, &exporter.view);
    if (code >= 0)
        return code;
    if (!wishes.once && !export_serve)
        return failure("export", "this program was built without libmicrohttpd: it can only print, with --once");
    code = wishes.once ? print_once(&exporter, wishes.format)
                       : export_serve(&exporter, wishes.address ? wishes.address : EXPORT_ADDRESS);
    export_end(&exporter);
    return code;
}
