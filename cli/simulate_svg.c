/* SPDX-License-Identifier: Apache-2.0 */
/* The times of the largest number of GPUs as a picture: a line for each algorithm and order, over bytes. */
#include "cli/simulate.h"
#include "cli/cli.h"

#include <math.h>
#include <string.h>

#define WIDTH  760.0
#define HEIGHT 420.0
#define LEFT   70.0
#define TOP    40.0
#define RIGHT  250.0 /* for names */
#define BOTTOM 50.0
#define FONT   "font-family='DejaVu Sans, Helvetica, sans-serif'"

static const char *const colours[] = {"#1d4ed8", "#c2410c", "#15803d", "#7e22ce", "#be123c",
                                      "#0e7490", "#a16207", "#4d7c0f", "#475569", "#db2777"};
static const char *const dashes[ROUTE_WAYS] = {"6,4", "2,3", "none"};

struct chart {
    FILE *out;
    const struct simulate_report *report;
    const struct simulate_scale *scale;
    double least, most; /* seconds */
};

static double at_x(const struct chart *c, double bytes)
{
    const struct study_request *r = &c->report->request;
    double first = log(r->bytes[0]), last = log(r->bytes[r->sizes - 1]);
    return LEFT + (last > first ? (log(bytes) - first) / (last - first) : 0.5) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const struct chart *c, double seconds)
{
    return TOP + (log(c->most) - log(seconds)) / (log(c->most) - log(c->least)) * (HEIGHT - TOP - BOTTOM);
}

static void bounds(struct chart *c)
{
    c->least = INFINITY;
    c->most = 0;
    for (int i = 0; i < c->scale->study.count; i++)
        for (int w = 0; w < ROUTE_WAYS; w++)
            for (int k = 0; k < c->report->request.sizes && c->scale->study.row[i].done[w]; k++) {
                double seconds = c->scale->study.row[i].time[w][k].mean;
                c->least = seconds < c->least ? seconds : c->least;
                c->most = seconds > c->most ? seconds : c->most;
            }
    if (!(c->most > 0) || !isfinite(c->most))
        c->least = c->most = 1e-6;
    c->least = pow(10, floor(log10(c->least)));
    c->most = pow(10, ceil(log10(c->most)));
    c->most = c->most > c->least ? c->most : 10 * c->least;
}

static void axes(const struct chart *c)
{
    const struct study_request *r = &c->report->request;
    for (double t = c->least; t <= c->most * 1.001; t *= 10) {
        double y = at_y(c, t);
        bool ms = t >= 0.9999e-3;
        fprintf(c->out, "<path d='M%.1f,%.1f H%.1f' stroke='#d4d4d8'/>", LEFT, y, WIDTH - RIGHT);
        fprintf(c->out, "<text x='%.1f' y='%.1f' text-anchor='end'>%.4g %s</text>\n", LEFT - 6, y + 4,
                ms ? t * 1e3 : t * 1e6, ms ? "ms" : "us");
    }
    for (int k = 0; k < r->sizes; k++) {
        char size[32];
        text_size((int64_t)r->bytes[k], size, sizeof size);
        fprintf(c->out, "<text x='%.1f' y='%.1f' text-anchor='middle'>%s</text>\n", at_x(c, r->bytes[k]),
                HEIGHT - BOTTOM + 18, size);
    }
}

static void line(const struct chart *c, const struct study_row *row, enum route_way way, const char *colour)
{
    fprintf(c->out, "<polyline fill='none' stroke='%s' stroke-width='1.8' stroke-dasharray='%s' points='", colour,
            dashes[way]);
    for (int k = 0; k < c->report->request.sizes; k++)
        fprintf(c->out, "%.1f,%.1f ", at_x(c, c->report->request.bytes[k]), at_y(c, row->time[way][k].mean));
    fprintf(c->out, "'/>\n");
}

static void lines(const struct chart *c)
{
    double y = TOP + 6;
    for (int i = 0; i < c->scale->study.count; i++) {
        const struct study_row *row = &c->scale->study.row[i];
        const char *colour = colours[(size_t)i % (sizeof colours / sizeof *colours)];
        if (row->why[0])
            continue;
        for (enum route_way way = 0; way < ROUTE_WAYS; way++)
            if (row->done[way])
                line(c, row, way, colour);
        fprintf(c->out, "<text x='%.1f' y='%.1f' fill='%s'>%s%s%s</text>\n", WIDTH - RIGHT + 16, y, colour,
                row->algorithm->name, row->order < STUDY_ORDERS ? ", " : "",
                row->order < STUDY_ORDERS ? study_orders[row->order] : "");
        y += 17;
    }
    for (enum route_way way = 0; way < ROUTE_WAYS; way++)
        if (c->report->request.ways >> way & 1) {
            y += 17;
            fprintf(c->out, "<path d='M%.1f,%.1f h34' stroke='#18181b' stroke-width='1.8' stroke-dasharray='%s'/>",
                    WIDTH - RIGHT + 16, y - 4, dashes[way]);
            fprintf(c->out, "<text x='%.1f' y='%.1f'>%s</text>\n", WIDTH - RIGHT + 58, y, route_names[way]);
        }
}

void simulate_svg(FILE *out, const struct simulate_report *report)
{
    struct chart c = {.out = out, .report = report, .scale = &report->scale[report->scales - 1]};
    bounds(&c);
    fprintf(out, "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %.0f %.0f' font-size='12' %s>\n", WIDTH, HEIGHT,
            FONT);
    fprintf(out, "<rect width='100%%' height='100%%' fill='#ffffff'/>\n");
    fprintf(out, "<text x='%.1f' y='22' font-size='14'>%s of %d GPUs on the fabric %s, simulated</text>\n", LEFT,
            schedule_coll_name(report->request.coll), c.scale->gpus, report->fabric->name);
    axes(&c);
    lines(&c);
    fprintf(out, "</svg>\n");
}
