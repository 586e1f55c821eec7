/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A schedule as a drawing. Each round is a band. Local actions are boxes on the rank's line at the top of the band.
 * Below, each message is an arrow from its sender at the top to its receiver at the bottom, with the blocks that it
 * carries written on it.
 */
#include "base/error.h"
#include "schedule/printer.h"

#include <math.h>
#include <stdlib.h>

#define COLUMN      88.0
#define LEFT        96.0
#define TOP         84.0
#define BOX         18.0 /* height of a local action */
#define GAP         10.0
#define MOST_LABELS 3 /* sends of a rank in a round that get labels of their own */
#define FONT        "font-family='DejaVu Sans, Helvetica, sans-serif'"

struct drawing {
    FILE *file;
    const struct algorithm *algorithm;
    const struct shape *shape;
    int bound;
    struct action *actions; /* [n][bound] of this round */
    int *counts;            /* [n] */
    double y;               /* top of this round's band */
};

struct extent {
    int locals, sends; /* the most of any rank */
};

static const char *colour(enum action_kind kind)
{
    switch (kind) {
    case ACTION_RECV_REDUCE:
    case ACTION_REDUCE:
        return "#c2410c";
    case ACTION_COPY:
        return "#64748b";
    default:
        return "#1d4ed8";
    }
}

static double printer_svg_column(int rank)
{
    return LEFT + COLUMN * (rank + 0.5);
}

static const struct action *action_at(const struct drawing *d, int rank, int index)
{
    return &d->actions[(size_t)rank * (size_t)d->bound + (size_t)index];
}

static void load_round(struct drawing *d, int round)
{
    for (int rank = 0; rank < d->shape->nranks; rank++)
        d->counts[rank] =
            schedule_round(d->algorithm, d->shape, rank, round, d->actions + (size_t)rank * (size_t)d->bound);
}

static bool is_local(const struct action *a)
{
    return a->kind == ACTION_COPY || a->kind == ACTION_REDUCE;
}

static struct extent measure(const struct drawing *d)
{
    struct extent most = {0, 0};
    for (int rank = 0; rank < d->shape->nranks; rank++) {
        struct extent mine = {0, 0};
        for (int i = 0; i < d->counts[rank]; i++) {
            mine.locals += is_local(action_at(d, rank, i));
            mine.sends += action_at(d, rank, i)->kind == ACTION_SEND;
        }
        most.locals = mine.locals > most.locals ? mine.locals : most.locals;
        most.sends = mine.sends > most.sends ? mine.sends : most.sends;
    }
    return most;
}

/* Space for the arrows: more where they fan out, and where they go far. */
static double arrows_height(const struct drawing *d, struct extent extent)
{
    if (!extent.sends)
        return 0;
    double fan = 14.0 * (extent.sends < 12 ? extent.sends : 12), far = 2.5 * d->shape->nranks;
    return 44 + (fan > far ? fan : far);
}

static double locals_height(struct extent extent)
{
    return extent.locals ? (extent.locals < 5 ? extent.locals : 5) * BOX + 6 : 0;
}

static double band_height(const struct drawing *d)
{
    struct extent extent = measure(d);
    return GAP + locals_height(extent) + arrows_height(d, extent);
}

/* "3" or "2..5" of the vector; of an alltoall's scratch blocks only how many. */
static void format_blocks(const struct drawing *d, const struct action *a, char *out, size_t size)
{
    bool nameless = d->shape->coll == COLL_ALLTOALL && a->src_buffer == BUFFER_SCRATCH;
    *out = 0;
    if (nameless && a->nblocks)
        snprintf(out, size, "%d block%s", a->nblocks, a->nblocks == 1 ? "" : "s");
    else if (a->nblocks > 1)
        snprintf(out, size, "%d..%d", a->block, a->block + a->nblocks - 1);
    else if (a->nblocks)
        snprintf(out, size, "%d", a->block);
}

static void format_local(const struct action *a, char *out, size_t size)
{
    static const char *const letters[] = {"I", "O", "S"};
    const char *from = letters[a->src_buffer % 3], *to = letters[a->dst_buffer % 3];
    if (a->kind == ACTION_REDUCE)
        snprintf(out, size, "%s%d=\xce\xa3%s%d..%d", to, a->dst_block, from, a->src_block,
                 a->src_block + a->nsrc * a->nblocks - 1);
    else if (a->nblocks > 1)
        snprintf(out, size, "%s=%s %d..%d", to, from, a->dst_block, a->dst_block + a->nblocks - 1);
    else
        snprintf(out, size, "%s%d=%s%d", to, a->dst_block, from, a->src_block);
}

static void draw_box(const struct drawing *d, int rank, int row, const char *fill, const char *text)
{
    double x = printer_svg_column(rank), y = d->y + GAP + row * BOX;
    fprintf(d->file, "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' rx='3' fill='%s'/>", x - COLUMN * 0.44, y,
            COLUMN * 0.88, BOX - 3, fill);
    fprintf(d->file, "<text x='%.1f' y='%.1f' text-anchor='middle' font-size='11' fill='#ffffff'>%s</text>\n", x,
            y + 11.5, text);
}

/* Boxes of a rank's local actions; more than five are summed up in the last. */
static void draw_locals(const struct drawing *d, int rank)
{
    int total = 0, row = 0;
    char text[64];
    for (int i = 0; i < d->counts[rank]; i++)
        total += is_local(action_at(d, rank, i));
    for (int i = 0; i < d->counts[rank]; i++) {
        const struct action *a = action_at(d, rank, i);
        if (!is_local(a) || row == 5)
            continue;
        if (row == 4 && total > 5)
            snprintf(text, sizeof text, "%d more", total - 4);
        else
            format_local(a, text, sizeof text);
        draw_box(d, rank, row++, colour((enum action_kind)a->kind), text);
    }
}

/* What the receiver of the `order`-th send from `rank` to `peer` does with it. */
static enum action_kind receiver_kind(const struct drawing *d, int rank, int peer, int order)
{
    for (int i = 0; i < d->counts[peer]; i++) {
        const struct action *a = action_at(d, peer, i);
        if ((a->kind == ACTION_RECV || a->kind == ACTION_RECV_REDUCE) && a->peer == rank && order-- == 0)
            return (enum action_kind)a->kind;
    }
    return ACTION_SEND;
}

static int printer_svg_order_of(const struct drawing *d, int rank, int index)
{
    int order = 0;
    for (int i = 0; i < index; i++)
        order += action_at(d, rank, i)->kind == ACTION_SEND &&
                 action_at(d, rank, i)->peer == action_at(d, rank, index)->peer;
    return order;
}

struct line {
    double x1, y1, x2, y2, length;
    enum action_kind kind; /* the receiver's */
};

/* The arrow of the send at `index`. A second message to the same peer runs beside the first. */
static struct line line_of(const struct drawing *d, int rank, int index, struct extent extent)
{
    const struct action *a = action_at(d, rank, index);
    int order = printer_svg_order_of(d, rank, index);
    struct line line = {.x1 = printer_svg_column(rank) + 5 * order, .x2 = printer_svg_column(a->peer) + 5 * order};
    line.y1 = d->y + GAP + locals_height(extent);
    line.y2 = line.y1 + arrows_height(d, extent) - 14;
    double right = line.x2 - line.x1, down = line.y2 - line.y1;
    line.length = sqrt(right * right + down * down); // hypot() would want glibc 2.35
    line.kind = receiver_kind(d, rank, a->peer, order);
    return line;
}

static void draw_text(const struct drawing *d, double x, double y, const char *fill, const char *text)
{
    fprintf(d->file,
            "<text x='%.1f' y='%.1f' text-anchor='middle' font-size='11' fill='%s' stroke='#ffffff' stroke-width='3' "
            "paint-order='stroke'>%s</text>\n",
            x, y, fill, text);
}

static void draw_arrow(const struct drawing *d, const struct line *line, struct extent extent)
{
    fprintf(d->file,
            "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='%s' stroke-width='%s' marker-end='url(#%s)'/>\n",
            line->x1, line->y1, line->x2, line->y2, colour(line->kind), extent.sends > MOST_LABELS ? "0.7" : "1.4",
            line->kind == ACTION_RECV_REDUCE ? "sum" : "put");
}

/* Near the arrow's tail; the second and third of a fan farther out, so that labels stand apart. */
static void draw_label(const struct drawing *d, const struct action *a, const struct line *line, int nth)
{
    char text[40];
    double reach = line->length * 0.3 < 30 ? line->length * 0.3 : 30;
    double part = (reach + 26 * nth) / line->length;
    format_blocks(d, a, text, sizeof text);
    if (*text)
        draw_text(d, line->x1 + (line->x2 - line->x1) * part, line->y1 + (line->y2 - line->y1) * part + 4,
                  colour(line->kind), text);
}

/* Where arrows are many, one label for the whole fan: "3 to all", or "0..7" when each goes to a peer of its own. */
static void draw_fan_label(const struct drawing *d, int rank, struct extent extent)
{
    char text[48];
    int least = INT32_MAX, most = -1, sends = 0;
    for (int i = 0; i < d->counts[rank]; i++) {
        const struct action *a = action_at(d, rank, i);
        if (a->kind != ACTION_SEND || a->nblocks == 0)
            continue;
        sends++;
        least = a->block < least ? a->block : least;
        most = a->block + a->nblocks - 1 > most ? a->block + a->nblocks - 1 : most;
    }
    if (!sends)
        return;
    if (least == most)
        snprintf(text, sizeof text, "%d%s", least, sends > 1 ? " to each" : "");
    else
        snprintf(text, sizeof text, "%d..%d", least, most);
    draw_text(d, printer_svg_column(rank), d->y + GAP + locals_height(extent) + 12, colour(ACTION_SEND), text);
}

static void draw_sends(const struct drawing *d, int rank, struct extent extent, bool labels)
{
    int nth = 0;
    for (int i = 0; i < d->counts[rank]; i++) {
        const struct action *a = action_at(d, rank, i);
        if (a->kind != ACTION_SEND)
            continue;
        struct line line = line_of(d, rank, i, extent);
        if (!labels)
            draw_arrow(d, &line, extent);
        else if (extent.sends <= MOST_LABELS)
            draw_label(d, a, &line, nth++);
    }
    if (labels && extent.sends > MOST_LABELS)
        draw_fan_label(d, rank, extent);
}

static void draw_round(const struct drawing *d, int round, double height)
{
    double width = printer_svg_column(d->shape->nranks - 1) + COLUMN / 2;
    struct extent extent = measure(d);
    fprintf(d->file, "<line x1='8' y1='%.1f' x2='%.1f' y2='%.1f' stroke='#cbd5e1'/>\n", d->y, width, d->y);
    fprintf(d->file, "<text x='12' y='%.1f' font-size='12' fill='#0f172a'>round %d</text>\n", d->y + 22, round);
    for (int rank = 0; rank < d->shape->nranks; rank++)
        fprintf(d->file, "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='#e2e8f0' stroke-width='2'/>\n",
                printer_svg_column(rank), d->y, printer_svg_column(rank), d->y + height);
    for (int rank = 0; rank < d->shape->nranks; rank++)
        draw_sends(d, rank, extent, false);
    for (int rank = 0; rank < d->shape->nranks; rank++)
        draw_sends(d, rank, extent, true);
    for (int rank = 0; rank < d->shape->nranks; rank++)
        draw_locals(d, rank);
}

static void draw_key(const struct drawing *d)
{
    static const struct {
        const char *text;
        enum action_kind kind;
    } keys[] = {{"message, stored", ACTION_RECV},
                {"message, reduced", ACTION_RECV_REDUCE},
                {"copy", ACTION_COPY},
                {"reduce", ACTION_REDUCE}};
    double x = 12;
    for (int i = 0; i < 4; i++) {
        fprintf(d->file, "<rect x='%.1f' y='36' width='12' height='12' rx='2' fill='%s' fill-opacity='%s'/>", x,
                colour(keys[i].kind), i < 2 ? "0.55" : "1");
        fprintf(d->file, "<text x='%.1f' y='46' font-size='11' fill='#334155'>%s</text>\n", x + 17, keys[i].text);
        x += i < 2 ? 132 : 66;
    }
    fprintf(d->file, "<text x='%.1f' y='46' font-size='11' fill='#334155'>I in, O out, S scratch</text>\n", x + 8);
}

static void draw_head(const struct drawing *d, double width, double height)
{
    fprintf(d->file,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' viewBox='0 0 %.0f %.0f' " FONT ">\n",
            width, height, width, height);
    fprintf(d->file, "<title>%s %s</title><rect width='100%%' height='100%%' fill='#ffffff'/><defs>\n",
            schedule_coll_name(d->shape->coll), d->algorithm->name);
    for (int i = 0; i < 2; i++)
        fprintf(d->file,
                "<marker id='%s' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' orient='auto'>"
                "<path d='M0,0.8 L8,4 L0,7.2 z' fill='%s'/></marker>\n",
                i ? "sum" : "put", colour(i ? ACTION_RECV_REDUCE : ACTION_RECV));
    fprintf(d->file, "</defs><text x='12' y='24' font-size='15' fill='#0f172a'>%s %s, %d ranks",
            schedule_coll_name(d->shape->coll), d->algorithm->name, d->shape->nranks);
    if (schedule_has_root(d->shape->coll))
        fprintf(d->file, ", root %d", d->shape->root);
    fprintf(d->file, "</text>\n");
    draw_key(d);
    for (int rank = 0; rank < d->shape->nranks; rank++)
        fprintf(d->file, "<text x='%.1f' y='%.1f' text-anchor='middle' font-size='12' fill='#0f172a'>rank %d</text>\n",
                printer_svg_column(rank), TOP - 10, rank);
}

static void printer_svg_draw(struct drawing *d)
{
    int rounds = d->algorithm->rounds(d->shape);
    double height = TOP, width = printer_svg_column(d->shape->nranks - 1) + COLUMN / 2 + 8;
    for (int round = 0; round < rounds; round++) {
        load_round(d, round);
        height += band_height(d);
    }
    draw_head(d, width > 560 ? width : 560, height + 12);
    d->y = TOP;
    for (int round = 0; round < rounds; round++) {
        load_round(d, round);
        height = band_height(d);
        draw_round(d, round, height);
        d->y += height;
    }
    fprintf(d->file, "</svg>\n");
}

tutti_result_t printer_svg(FILE *file, const struct algorithm *algorithm, const struct shape *shape)
{
    if (!schedule_fits(algorithm, shape))
        return error_note(TUTTI_INVALID_ARGUMENT, "drawing %s %s: it does not take %d ranks with root %d",
                          schedule_coll_name(shape->coll), algorithm->name, shape->nranks, shape->root);
    if (shape->nranks > PRINTER_SVG_RANKS || algorithm->rounds(shape) > PRINTER_SVG_ROUNDS)
        return error_note(TUTTI_INVALID_ARGUMENT,
                          "drawing %d ranks, %d rounds: a drawing takes up to %d ranks and %d rounds", shape->nranks,
                          algorithm->rounds(shape), PRINTER_SVG_RANKS, PRINTER_SVG_ROUNDS);
    size_t n = (size_t)shape->nranks, bound = (size_t)algorithm->actions(shape);
    struct drawing d = {.file = file, .algorithm = algorithm, .shape = shape, .bound = (int)bound};
    d.actions = calloc(n * bound + 1, sizeof *d.actions);
    d.counts = calloc(n, sizeof *d.counts);
    tutti_result_t result = TUTTI_SUCCESS;
    if (d.actions && d.counts)
        printer_svg_draw(&d);
    else
        result = error_set(TUTTI_SYSTEM_ERROR, "drawing a schedule: out of memory");
    free(d.actions);
    free(d.counts);
    return result;
}
