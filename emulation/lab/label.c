/* SPDX-License-Identifier: Apache-2.0 */
/* Tries places along a line, on both sides of it, and takes the first that is free. */
#include "lab/label.h"

#include <math.h>
#include <stdlib.h>

#define STEPS     16
#define OWN_AWAY  5 /* pixels from the middle of the word's own line, which is 7.5 wide at most */
#define LINE_AWAY 9 /* from others: a word is nearer to its own */
#define WORD_AWAY 2

bool label_begin(struct label_room *room, double width, int lines, int boxes)
{
    *room = (struct label_room){.width = width};
    room->lines = calloc((size_t)lines + 1, sizeof *room->lines);
    room->taken = calloc((size_t)boxes + 1, sizeof *room->taken);
    return room->lines && room->taken;
}

void label_free(struct label_room *room)
{
    free(room->lines);
    free(room->taken);
    *room = (struct label_room){0};
}

/* Cuts the part of a line, from *first to *last, that is between two bounds. False: nothing is left. */
static bool clip(double from, double step, double low, double high, double *first, double *last)
{
    if (step == 0)
        return from >= low && from <= high;
    double a = (low - from) / step, b = (high - from) / step;
    *first = fmax(*first, fmin(a, b));
    *last = fmin(*last, fmax(a, b));
    return *first <= *last;
}

static bool is_on(const struct label_line *line, const struct label_box *box, double away)
{
    double first = 0, last = 1, width = box->width / 2 + away, height = box->height / 2 + away;
    return clip(line->from.x, line->to.x - line->from.x, box->x - width, box->x + width, &first, &last) &&
           clip(line->from.y, line->to.y - line->from.y, box->y - height, box->y + height, &first, &last);
}

static bool overlap(const struct label_box *a, const struct label_box *b)
{
    return fabs(a->x - b->x) < (a->width + b->width) / 2 + WORD_AWAY &&
           fabs(a->y - b->y) < (a->height + b->height) / 2 + WORD_AWAY;
}

static bool is_free(const struct label_room *room, int own, const struct label_box *box)
{
    if (box->x - box->width / 2 < WORD_AWAY || box->x + box->width / 2 > room->width - WORD_AWAY)
        return false;
    for (int i = 0; i < room->line_count; i++)
        if (is_on(&room->lines[i], box, i == own ? OWN_AWAY : LINE_AWAY))
            return false;
    for (int i = 0; i < room->taken_count; i++)
        if (overlap(&room->taken[i], box))
            return false;
    return true;
}

bool label_place(struct label_room *room, int own, double first, double last, double width, double height,
                 struct label_point *out)
{
    const struct label_line *line = &room->lines[own];
    double lean = (line->to.x - line->from.x) / (line->to.y - line->from.y);
    double aside = width / 2 + OWN_AWAY + 0.5 + fabs(lean) * (height / 2 + OWN_AWAY);
    for (int i = 0; i < 2 * STEPS; i++) {
        double part = first + (last - first) * (i / 2 + 0.5) / STEPS;
        struct label_point at = {line->from.x + (line->to.x - line->from.x) * part,
                                 line->from.y + (line->to.y - line->from.y) * part};
        struct label_box box = {i % 2 ? at.x + aside : at.x - aside, at.y, width, height};
        if (is_free(room, own, &box)) {
            room->taken[room->taken_count++] = box;
            *out = (struct label_point){box.x, box.y};
            return true;
        }
    }
    return false;
}
