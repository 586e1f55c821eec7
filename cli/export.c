/* SPDX-License-Identifier: Apache-2.0 */
/* tutti export: metrics of all processes of this host for Prometheus, once or over HTTP. */
#include "cli/export.h"
#include "cli/cli.h"
#include "cli/options.h"

#include "base/clock.h"
#include "base/param.h"
#include "base/parse.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

#define EXPORT_ADDRESS "127.0.0.1:9797"
#define EXPORT_STUCK   (10 * NS_PER_S)

struct export_wishes {
    const char *address, *format;
    bool once;
    struct exporter exporter;
};

#define W struct export_wishes
static const struct option_row rows[] = {
    {'l', "listen", "ADDRESS", "where to serve (default " EXPORT_ADDRESS "; port 0: any free one, which is printed)",
     TO_TEXT(W, address)},
    {'1', "once", NULL, "print the metrics to standard output instead", TO_FLAG(W, once)},
    {0, "format", "NAME", "with --once; text is Prometheus' older form (default openmetrics)",
     .choices = "openmetrics text", TO_TEXT(W, format)},
    {0, "stuck", "TIME", "an operation that is unfinished for TIME is a hang (default 10s)",
     TO_TIME(W, exporter.view.stuck, 0)},
    {0, "dir", "DIR", "read the black boxes in DIR instead of those in TUTTI_TRACE_DIR", TO_TEXT(W, exporter.view.dir)},
};
#undef W

static const struct options options_of_export = {
    .command = "export",
    .usage = "[OPTION...]",
    .before = "Serves the metrics of all processes of this host that use tutti, read from their black boxes, for "
              "Prometheus to scrape: http://" EXPORT_ADDRESS "/metrics. Root sees everybody's processes, others their "
              "own. The processes are not disturbed. Everybody who reaches the address may read: keep to loopback "
              "where that is not wanted. It runs until it is ended.",
    .after = "Exit status: 0 printed, or ended by a signal, 1 it cannot serve, look or write, 2 wrong options.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
};

static int parse(int argc, char **argv, struct export_wishes *wishes)
{
    int code = options_parse(&options_of_export, argc, argv, wishes);
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
    struct export_wishes wishes = {
        .exporter = {
            .view = {.command = "export", .dir = param_string(PARAM_TRACE_DIR), .stuck = EXPORT_STUCK, .quiet = true}}};
    struct exporter *exporter = &wishes.exporter;
    exporter->view.past = &exporter->past;
    int code = parse(argc, argv, &wishes);
    if (code >= 0)
        return code;
    if (!wishes.once && !export_serve)
        return failure("export", "this program was built without libmicrohttpd: it can only print, with --once");
    code = wishes.once ? print_once(exporter, wishes.format)
                       : export_serve(exporter, wishes.address ? wishes.address : EXPORT_ADDRESS);
    export_end(exporter);
    return code;
}
