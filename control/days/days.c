/* SPDX-License-Identifier: Apache-2.0 */
#include "days/days.h"

#include "base/clock.h"
#include "diagnosis/slowed.h"
#include "diagnosis/scene.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MARKS    16384 /* a power of 2; of twice as many processes at most half are known */
#define PAUSE_NS (2 * NS_PER_S)

/* What was counted of a process so far. */
struct day_mark {
    uint64_t process; /* 0: free */
    uint64_t next_event, pauses;
};

bool days_open(struct days *days)
{
    *days =
        (struct days){.rows = calloc(DAYS_MOST + 1, sizeof *days->rows), .marks = calloc(MARKS, sizeof *days->marks)};
    if (days->rows && days->marks)
        return true;
    days_close(days);
    return false;
}

void days_close(struct days *days)
{
    free(days->rows);
    free(days->marks);
    *days = (struct days){0};
}

bool days_changed(const struct days *days)
{
    for (size_t i = 0; i < days->count; i++)
        if (days->rows[i].changed)
            return true;
    return false;
}

void days_clean(struct days *days)
{
    for (size_t i = 0; i < days->count; i++)
        days->rows[i].changed = false;
}

/* ---- Rows ---- */

static int by_day(const struct day_row *a, const struct day_row *b)
{
    int days = strcmp(a->day, b->day);
    return days ? days : strcmp(a->host, b->host);
}

/* The row of this day and host, made if there is none. NULL: it is older than all, and there is no room. */
static struct day_row *row_of(struct days *days, const struct day_row *key)
{
    size_t at = days->count;
    while (at > 0 && by_day(&days->rows[at - 1], key) > 0)
        at--;
    if (at > 0 && by_day(&days->rows[at - 1], key) == 0)
        return &days->rows[at - 1];
    memmove(days->rows + at + 1, days->rows + at, (days->count - at) * sizeof *days->rows);
    days->rows[at] = (struct day_row){.changed = true};
    memcpy(days->rows[at].day, key->day, sizeof key->day);
    memcpy(days->rows[at].host, key->host, sizeof key->host);
    if (++days->count <= DAYS_MOST)
        return &days->rows[at];
    memmove(days->rows, days->rows + 1, --days->count * sizeof *days->rows);
    return at ? &days->rows[at - 1] : NULL;
}

static struct day_row *row_at(struct days *days, const char *host, uint64_t now)
{
    struct day_row key = {0};
    struct tm broken;
    time_t seconds = (time_t)(now / NS_PER_S);
    if (!localtime_r(&seconds, &broken) || !strftime(key.day, sizeof key.day, "%Y-%m-%d", &broken))
        return NULL;
    snprintf(key.host, sizeof key.host, "%s", host);
    return row_of(days, &key);
}

static uint32_t sum(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

static bool is_name(const char *text)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:";
    return *text && !text[strspn(text, allowed)];
}

static bool is_day(const char *text)
{
    static const char form[] = "dddd-dd-dd";
    for (size_t i = 0; i < sizeof form; i++)
        if (form[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
            return false;
    return true;
}

bool days_add(struct days *days, const struct day_row *row)
{
    struct day_row *to = is_day(row->day) && is_name(row->host) ? row_of(days, row) : NULL;
    if (!to)
        return false;
    to->lanes = sum(to->lanes, row->lanes);
    to->pauses = sum(to->pauses, row->pauses);
    to->slow = sum(to->slow, row->slow);
    for (int kind = 0; kind < FINDING_KINDS; kind++)
        to->verdicts[kind] = sum(to->verdicts[kind], row->verdicts[kind]);
    to->changed = true;
    return true;
}

/* ---- Looks ---- */

/* Where there is no room, all are forgotten: what they had counted before is not counted again. */
static struct day_mark *mark_of(struct days *days, uint64_t process)
{
    size_t at = (process * 0x9e3779b97f4a7c15ull) >> 50;
    while (days->marks[at % MARKS].process && days->marks[at % MARKS].process != process)
        at++;
    if (days->marks[at % MARKS].process || days->mark_count++ < MARKS / 2)
        return &days->marks[at % MARKS];
    memset(days->marks, 0, MARKS * sizeof *days->marks);
    days->mark_count = 1;
    return &days->marks[at % MARKS];
}

static uint64_t long_pauses(const struct blackbox *box)
{
    uint64_t count = 0;
    for (size_t i = 0; i < box->pause_count; i++)
        count += box->pauses[i].longest >= PAUSE_NS ? box->pauses[i].count : 0;
    return count;
}

static uint32_t lanes_down(const struct blackbox *box, uint64_t from)
{
    uint32_t count = 0;
    for (size_t i = 0; i < box->event_count; i++)
        count += box->events[i].number >= from && box->events[i].kind == WIRE_EVENT_LANE_DOWN;
    return count;
}

void days_note(struct days *days, const struct blackbox *box, const char *host, uint64_t now)
{
    struct day_mark *mark = mark_of(days, process_key(box) | 1);
    bool new = !mark->process;
    uint64_t next = box->event_count ? box->events[box->event_count - 1].number + 1 : 0, pauses = long_pauses(box);
    uint32_t lanes = new ? 0 : lanes_down(box, mark->next_event);
    uint64_t more = !new &&pauses > mark->pauses ? pauses - mark->pauses : 0;
    *mark = (struct day_mark){process_key(box) | 1, next, pauses};
    bool slow = process_is_slowed(box);
    struct day_row *row = lanes || more || slow ? row_at(days, host, now) : NULL;
    if (!row)
        return;
    bool minute = slow && row->minute != now / (60 * NS_PER_S);
    row->minute = slow ? now / (60 * NS_PER_S) : row->minute;
    row->lanes = sum(row->lanes, lanes);
    row->pauses = sum(row->pauses, more > UINT32_MAX ? UINT32_MAX : (uint32_t)more);
    row->slow = sum(row->slow, minute);
    row->changed |= lanes || more || minute;
}

void days_note_verdict(struct days *days, const char *host, enum finding_kind kind, uint64_t now)
{
    struct day_row *row = *host ? row_at(days, host, now) : NULL;
    if (row) {
        row->verdicts[kind] = sum(row->verdicts[kind], 1);
        row->changed = true;
    }
}
