/* SPDX-License-Identifier: Apache-2.0 */
/* Three rows (spines, leaves, hosts), links as pairs of arrows that meet, and columns that compare the uplinks of each
 * leaf. */
#include "lab/draw.h"
#include "lab/label.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define MARGIN     30
#define BOX_HEIGHT 34
#define ROW_HEIGHT 190
#define TOP        70
#define CHART_TOP  (TOP + 2 * ROW_HEIGHT + BOX_HEIGHT + 60)
#define CHART_HIGH 60
#define LABELLED   64 /* more links than this are drawn without numbers */

#define LETTER      6.5 /* width of a digit */
#define LEAST_BYTES 5000

struct canvas {
    const struct counters *counters;
    const struct lab_topology *topology;
    struct text *out;
    double width, height;
    uint64_t most; /* bytes of the busiest direction */
};

struct box {
    double x, y, width; /* of the middle; all boxes are BOX_HEIGHT high */
};

static int role_count(const struct lab_topology *topology, enum lab_role role)
{
    const struct lab_spec *spec = &topology->spec;
    return role == LAB_HOST ? spec->hosts : role == LAB_LEAF ? spec->leaves : spec->spines;
}

static int ports_below(const struct lab_topology *topology, int node, int before)
{
    int count = 0;
    for (int i = 0; i < before; i++)
        count += topology->links[i].upper.node == node;
    return count;
}

/* Enough for its ports side by side. */
static double box_width(const struct lab_topology *topology, int node)
{
    const struct lab_spec *spec = &topology->spec;
    int above = topology->nodes[node].role == LAB_HOST   ? spec->nics
                : topology->nodes[node].role == LAB_LEAF ? topology_uplinks(spec)
                                                         : 0;
    int below = ports_below(topology, node, topology->link_count);
    return fmax(70, 20 + (topology->link_count > LABELLED ? 26 : 46) * fmax(above, below));
}

static struct box box_of(const struct canvas *canvas, int node)
{
    const struct lab_node *self = &canvas->topology->nodes[node];
    double step = (canvas->width - 2 * MARGIN) / role_count(canvas->topology, self->role);
    return (struct box){MARGIN + step * (self->index + 0.5),
                        TOP + ROW_HEIGHT * (LAB_SPINE - self->role) + BOX_HEIGHT / 2.0,
                        box_width(canvas->topology, node)};
}

static double canvas_width(const struct lab_topology *topology)
{
    double row[3] = {0}, widest = 640;
    for (int i = 0; i < topology->node_count; i++)
        row[topology->nodes[i].role] = fmax(row[topology->nodes[i].role], box_width(topology, i) + 24);
    for (int role = LAB_HOST; role <= LAB_SPINE; role++)
        widest = fmax(widest, row[role] * role_count(topology, (enum lab_role)role) + 2 * MARGIN);
    return widest;
}

static struct label_point port_at(const struct canvas *canvas, int link, bool lower)
{
    const struct lab_topology *topology = canvas->topology;
    const struct lab_link *found = &topology->links[link];
    int node = lower ? found->lower.node : found->upper.node;
    int index = lower ? found->number : ports_below(topology, node, link);
    int count = !lower          ? ports_below(topology, node, topology->link_count)
                : found->uplink ? topology_uplinks(&topology->spec)
                                : topology->spec.nics;
    struct box box = box_of(canvas, node);
    return (struct label_point){box.x - box.width / 2 + box.width * (index + 0.5) / count,
                                box.y + (lower ? -BOX_HEIGHT / 2.0 : BOX_HEIGHT / 2.0)};
}

/* 0 .. 1 */
static double load_of(const struct canvas *canvas, int link, const struct counters_side *side)
{
    double seconds = canvas->counters->seconds, rate = (double)canvas->counters->links[link].rate;
    if (seconds > 0 && rate > 0)
        return fmin(1, (double)side->bytes * 8 / seconds / rate);
    return canvas->most ? (double)side->bytes / (double)canvas->most : 0;
}

/* Grey without load, then green, yellow, red. */
static void colour_of(double load, char *out, size_t size)
{
    static const double stops[][4] = {
        {0, 176, 184, 192}, {0.02, 120, 178, 130}, {0.35, 60, 160, 80}, {0.65, 235, 180, 30}, {1, 205, 35, 40}};
    int i = 0;
    while (i < 3 && load > stops[i + 1][0])
        i++;
    double part = (load - stops[i][0]) / (stops[i + 1][0] - stops[i][0]);
    int rgb[3];
    for (int c = 0; c < 3; c++)
        rgb[c] = (int)lround(stops[i][c + 1] + part * (stops[i + 1][c + 1] - stops[i][c + 1]));
    snprintf(out, size, "#%02x%02x%02x", rgb[0] & 255, rgb[1] & 255, rgb[2] & 255);
}

static void amount_of(const struct canvas *canvas, const struct counters_side *side, char *out, size_t size)
{
    if (canvas->counters->seconds > 0)
        snprintf(out, size, "%.1f Mb/s", (double)side->bytes * 8e-6 / canvas->counters->seconds);
    else
        snprintf(out, size, "%.2f MB", (double)side->bytes * 1e-6);
}

/* Where the arrows of a link meet, on the way up: below the middle, so that those of crossing links do not meet at one
 * point. */
static double meeting(const struct canvas *canvas, int link)
{
    return canvas->topology->links[link].uplink ? 0.42 : 0.5;
}

/* An arrow from one end to where both arrows of a link meet. */
static void draw_half(const struct canvas *canvas, int link, const struct counters_side *side, struct label_point from,
                      struct label_point to)
{
    double load = load_of(canvas, link, side), width = 2.5 + 5 * load, head = 5 + width;
    double length = hypot(to.x - from.x, to.y - from.y), x = (to.x - from.x) / length, y = (to.y - from.y) / length;
    struct label_point neck = {to.x - x * head, to.y - y * head};
    char colour[16];
    colour_of(load, colour, sizeof colour);
    text_add(canvas->out, "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"%s\" stroke-width=\"%.1f\"/>\n", from.x, from.y,
             neck.x, neck.y, colour, width);
    text_add(canvas->out, "<path d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1fZ\" fill=\"%s\"/>\n", to.x, to.y,
             neck.x - y * head * 0.6, neck.y + x * head * 0.6, neck.x + y * head * 0.6, neck.y - x * head * 0.6,
             colour);
}

/* A number without its unit, which the legend has. Next to nothing, as that of IPv6 alone, has none. */
static void draw_amount(const struct canvas *canvas, struct label_room *room, int link,
                        const struct counters_side *side, double first, double last)
{
    char amount[32];
    struct label_point at;
    if (side->bytes < LEAST_BYTES || side->bytes < canvas->most / 200)
        return;
    amount_of(canvas, side, amount, sizeof amount);
    amount[strcspn(amount, " ")] = 0;
    if (label_place(room, link, first, last, LETTER * (double)strlen(amount), LETTER * 1.5, &at))
        text_add(canvas->out, "<text class=\"amount\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", at.x, at.y + 3.5, amount);
}

/* In two lines, since a narrow word finds a place more often. Without one it stands on the line that it is about. */
static void draw_broken(const struct canvas *canvas, struct label_room *room, int link)
{
    const struct label_line *line = &room->lines[link];
    const char *state = counters_state_name(canvas->counters, link), *rest = strchr(state, ' ');
    int first = (int)(rest ? rest - state : (ptrdiff_t)strlen(state)), second = rest ? (int)strlen(rest + 1) : 0;
    double width = LETTER * 1.2 * fmax(first, second), height = LETTER * (rest ? 4 : 2), part = meeting(canvas, link);
    struct label_point at;
    if (canvas->counters->links[link].state == COUNTERS_UP)
        return;
    if (!label_place(room, link, part, 0.95, width, height, &at) &&
        !label_place(room, link, part, 0.05, width, height, &at))
        at = (struct label_point){line->from.x + (line->to.x - line->from.x) * part,
                                  line->from.y + (line->to.y - line->from.y) * part};
    text_add(canvas->out, "<text class=\"broken\" x=\"%.1f\" y=\"%.1f\">%.*s", at.x, at.y + (rest ? -3 : 4), first,
             state);
    if (rest)
        text_add(canvas->out, "<tspan x=\"%.1f\" dy=\"13\">%s</tspan>", at.x, rest + 1);
    text_add(canvas->out, "</text>\n");
}

static void draw_labels(const struct canvas *canvas)
{
    const struct lab_topology *topology = canvas->topology;
    struct label_room room;
    bool begun =
        label_begin(&room, canvas->width, topology->link_count, topology->node_count + 3 * topology->link_count);
    canvas->out->failed |= !begun;
    for (int i = 0; begun && i < topology->link_count; i++)
        room.lines[room.line_count++] = (struct label_line){port_at(canvas, i, true), port_at(canvas, i, false)};
    for (int i = 0; begun && i < topology->node_count; i++) {
        struct box box = box_of(canvas, i);
        room.taken[room.taken_count++] = (struct label_box){box.x, box.y, box.width, BOX_HEIGHT};
    }
    for (int i = 0; begun && i < topology->link_count; i++)
        draw_broken(canvas, &room, i);
    for (int i = 0; begun && i < topology->link_count && topology->link_count <= LABELLED; i++) {
        double meet = meeting(canvas, i);
        draw_amount(canvas, &room, i, &canvas->counters->links[i].up, 0.05, meet - 0.07);
        draw_amount(canvas, &room, i, &canvas->counters->links[i].down, 0.95, meet + 0.07);
    }
    label_free(&room);
}

static void draw_tooltip(const struct canvas *canvas, int link)
{
    const struct counters_link *found = &canvas->counters->links[link];
    char up[32], down[32];
    amount_of(canvas, &found->up, up, sizeof up);
    amount_of(canvas, &found->down, down, sizeof down);
    text_add(canvas->out, "<title>%s: %s up, %s down, %s</title>\n", canvas->topology->links[link].name, up, down,
             counters_state_name(canvas->counters, link));
}

static void draw_link(const struct canvas *canvas, int link)
{
    const struct counters_link *found = &canvas->counters->links[link];
    struct label_point low = port_at(canvas, link, true), high = port_at(canvas, link, false);
    double part = meeting(canvas, link);
    struct label_point meet = {low.x + (high.x - low.x) * part, low.y + (high.y - low.y) * part};
    text_add(canvas->out, "<g%s>", found->state == COUNTERS_UP ? "" : " stroke-dasharray=\"3 5\" opacity=\"0.8\"");
    draw_tooltip(canvas, link);
    draw_half(canvas, link, &found->up, low, meet);
    draw_half(canvas, link, &found->down, high, meet);
    text_add(canvas->out, "</g>\n");
}

static void draw_node(const struct canvas *canvas, int node)
{
    static const char *const fills[] = {"#eef3fa", "#f4efe4", "#efe8f4"};
    struct box box = box_of(canvas, node);
    text_add(canvas->out,
             "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"5\" fill=\"%s\" stroke=\"#445\"/>"
             "<text class=\"node\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
             box.x - box.width / 2, box.y - BOX_HEIGHT / 2.0, box.width, BOX_HEIGHT,
             fills[canvas->topology->nodes[node].role], box.x, box.y + 5, canvas->topology->nodes[node].name);
}

/* One group of columns: the uplinks of a leaf, sent or received. */
static void draw_chart(const struct canvas *canvas, int leaf, bool up, double x, double y, double room)
{
    int uplinks = topology_uplinks(&canvas->topology->spec);
    double step = fmin(34, room / uplinks);
    for (int u = 0; u < uplinks; u++) {
        int link = topology_uplink(canvas->topology, leaf, u);
        const struct counters_link *found = &canvas->counters->links[link];
        const struct counters_side *side = up ? &found->up : &found->down;
        double high = 1 + (CHART_HIGH - 1) * (canvas->most ? (double)side->bytes / (double)canvas->most : 0);
        char colour[16];
        colour_of(load_of(canvas, link, side), colour, sizeof colour);
        text_add(canvas->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n",
                 x + u * step, y + CHART_HIGH - high, step * 0.8, high, colour);
        if (step >= 20)
            text_add(canvas->out, "<text class=\"small\" text-anchor=\"middle\" x=\"%.1f\" y=\"%d\">u%d</text>\n",
                     x + (u + 0.4) * step, (int)y + CHART_HIGH + 13, u);
    }
    text_add(canvas->out,
             "<text class=\"small\" x=\"%.1f\" y=\"%d\">l%d %s</text><text class=\"small\" x=\"%.1f\" "
             "y=\"%d\">max/mean %.2f</text>\n",
             x, (int)y + CHART_HIGH + 28, leaf, up ? "sent up" : "received", x, (int)y + CHART_HIGH + 42,
             counters_balance(canvas->counters, leaf, up).max_over_mean);
}

static int charts_per_row(const struct canvas *canvas)
{
    int fit = (int)((canvas->width - 2 * MARGIN) / fmax(110, topology_uplinks(&canvas->topology->spec) * 12));
    return fit < 2 ? 2 : fit - fit % 2;
}

static void draw_charts(const struct canvas *canvas)
{
    int across = charts_per_row(canvas);
    double room = (canvas->width - 2 * MARGIN) / across;
    if (topology_uplinks(&canvas->topology->spec) == 0)
        return;
    text_add(canvas->out, "<text class=\"head\" x=\"%d\" y=\"%d\">Load of each leaf's uplinks</text>\n", MARGIN,
             CHART_TOP - 14);
    for (int i = 0; i < 2 * canvas->topology->spec.leaves; i++)
        draw_chart(canvas, i / 2, i % 2 == 0, MARGIN + i % across * room, CHART_TOP + i / across * (CHART_HIGH + 60),
                   room * 0.85);
}

static void draw_legend(const struct canvas *canvas)
{
    const struct lab_spec *spec = &canvas->topology->spec;
    double left = canvas->width - MARGIN - 190;
    text_add(canvas->out, "<text class=\"head\" x=\"%d\" y=\"26\">%s</text>", MARGIN, spec->name);
    text_add(canvas->out,
             "<text class=\"small\" x=\"%d\" y=\"44\">%d hosts x %d NICs, %d leaves, %d spines; %s that each end "
             "sent</text>\n",
             MARGIN, spec->hosts, spec->nics, spec->leaves, spec->spines,
             canvas->counters->seconds > 0 ? "Mb/s" : "MB");
    for (int i = 0; i < 40; i++) {
        char colour[16];
        colour_of(i / 39.0, colour, sizeof colour);
        text_add(canvas->out, "<rect x=\"%.1f\" y=\"18\" width=\"5\" height=\"10\" fill=\"%s\"/>", left + i * 4.75,
                 colour);
    }
    text_add(canvas->out, "<text class=\"small\" x=\"%.1f\" y=\"44\">idle</text>", left);
    text_add(canvas->out, "<text class=\"small\" text-anchor=\"end\" x=\"%.1f\" y=\"44\">%s</text>\n", left + 190,
             canvas->counters->seconds > 0 ? "full rate" : "busiest link");
}

static void draw_frame(const struct canvas *canvas)
{
    text_add(canvas->out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n"
             "<style>text{font-family:sans-serif;fill:#223}.node{font-size:14px;text-anchor:middle;font-weight:bold}"
             ".amount{font-size:10px;text-anchor:middle}"
             ".broken{font-size:12px;text-anchor:middle;font-weight:bold;fill:#a00;stroke:#fff;stroke-width:4px;"
             "paint-order:stroke}.small{font-size:11px}.head{font-size:15px;font-weight:bold}</style>\n"
             "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
             canvas->width, canvas->height, canvas->width, canvas->height);
}

tutti_result_t draw_svg(const struct counters *counters, struct text *out)
{
    struct canvas canvas = {.counters = counters, .topology = counters->topology, .out = out};
    canvas.width = canvas_width(canvas.topology);
    int rows = (2 * canvas.topology->spec.leaves + charts_per_row(&canvas) - 1) / charts_per_row(&canvas);
    canvas.height = CHART_TOP + (topology_uplinks(&canvas.topology->spec) ? rows * (CHART_HIGH + 60) : 0);
    for (int i = 0; i < canvas.topology->link_count; i++) {
        const struct counters_link *link = &counters->links[i];
        uint64_t more = link->up.bytes > link->down.bytes ? link->up.bytes : link->down.bytes;
        canvas.most = more > canvas.most ? more : canvas.most;
    }
    draw_frame(&canvas);
    draw_legend(&canvas);
    for (int i = 0; i < canvas.topology->link_count; i++)
        draw_link(&canvas, i);
    for (int i = 0; i < canvas.topology->node_count; i++)
        draw_node(&canvas, i);
    draw_labels(&canvas);
    draw_charts(&canvas);
    text_add(out, "</svg>\n");
    return text_ok(out);
}
