/* SPDX-License-Identifier: Apache-2.0 */
/* What lanes remember of all their windows, since they were opened: in words, and as JSON. */
#include "cli/trace_watch.h"
#include "cli/trace_text.h"
#include "cli/trace_values.h"

#include "wire/boxwatch.h"
#include "wire/boxwindow.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>

#define GB 1e9

static const char *const keys[WIRE_WATCH_SPANS] = {"last_second", "last_minute", "last_hour"};

/* ---- Ends ---- */

static bool view_address(const uint8_t address[16], char out[INET6_ADDRSTRLEN])
{
    static const uint8_t none[16], mapped[12] = {[10] = 0xff, [11] = 0xff};
    *out = 0;
    if (memcmp(address, none, sizeof none) == 0)
        return false;
    if (memcmp(address, mapped, sizeof mapped) == 0)
        return inet_ntop(AF_INET, address + sizeof mapped, out, INET6_ADDRSTRLEN);
    return inet_ntop(AF_INET6, address, out, INET6_ADDRSTRLEN);
}

void view_print_ends(FILE *out, const struct blackbox_lane *lane)
{
    char here[INET6_ADDRSTRLEN], there[INET6_ADDRSTRLEN];
    if (!lane->queue)
        return;
    view_address(lane->address, here);
    view_address(lane->peer_address, there);
    fprintf(out, "    queue pair %" PRIu32 " at %s to queue pair %" PRIu32 " at %s\n", lane->queue, here,
            lane->peer_queue, there);
}

json_t *view_address_json(const uint8_t address[16])
{
    char text[INET6_ADDRSTRLEN];
    return view_address(address, text) ? json_string(text) : json_null();
}

/* ---- In words ---- */

static void print_mark(FILE *out, const struct blackbox *box, const struct wire_box_mark *mark, const char *what,
                       enum wire_watch_span span)
{
    fprintf(out, "      %s of the %s: ", what, watch_span_name(span));
    if (mark->bytes)
        fprintf(out, "%.3f GB/s for %s", watch_rate(mark) / GB, phrase_time(mark->ns).text);
    else
        fputs(phrase_time(mark->ns).text, out);
    fprintf(out, " until %s", view_day(box, mark->end).text);
    if (strcmp(what, "longest message") != 0)
        fprintf(out, ", %s", window_cause_name((enum window_cause)mark->cause));
    fputc('\n', out);
}

static void print_slow(FILE *out, const struct blackbox *box, const struct wire_box_slow *slow)
{
    fprintf(out, "      slow from %s for %s: %.3f GB/s, usual %.3f, %s\n", view_day(box, slow->begin).text,
            phrase_time(slow->end > slow->begin ? slow->end - slow->begin : 0).text, watch_slow_rate(slow) / GB,
            (double)slow->usual / GB, window_cause_name((enum window_cause)slow->cause));
}

/* A mark that the next longer span has, too, is printed with that span alone. */
static void print_marks(FILE *out, const struct blackbox *box, const struct wire_box_watch *watch, enum watch_kind kind)
{
    static const char *const what[] = {"slowest window", "longest pause", "longest message"};
    const struct wire_box_mark *longer = NULL;
    for (int span = WIRE_LAST_HOUR; span >= WIRE_LAST_SECOND; span--) {
        const struct wire_box_mark *mark = watch_mark(watch, kind, (enum wire_watch_span)span, box->now);
        if (mark && mark != longer)
            print_mark(out, box, mark, what[kind], (enum wire_watch_span)span);
        longer = mark;
    }
}

void view_print_watch(FILE *out, const struct blackbox *box, const struct blackbox_lane *lane)
{
    const struct wire_box_watch *watch = lane->watch;
    if (!watch)
        return;
    if (watch->windows)
        fprintf(out,
                "    since %s: %" PRIu64 " windows, half of them below %.3f GB/s; usual %.3f GB/s, %" PRIu64
                " slow, %" PRIu64 " alarm%s\n",
                view_day(box, lane->opened).text, watch->windows,
                watch_rate_of_row(watch_row(watch->rates, WIRE_WATCH_RATES, 0.5) + 1) / GB, (double)watch->usual / GB,
                watch->slow_windows, watch->slows, watch->slows == 1 ? "" : "s");
    print_marks(out, box, watch, WATCH_LEAST);
    const struct wire_box_slow *slow;
    for (size_t i = 0; (slow = watch_slow(watch, i)); i++)
        print_slow(out, box, slow);
    print_marks(out, box, watch, WATCH_PAUSE);
    if (watch->messages)
        fprintf(out, "    small messages: %" PRIu64 " timed, half of them took less than %s\n", watch->messages,
                phrase_time((uint64_t)watch_time_of_row(watch_row(watch->times, WIRE_WATCH_TIMES, 0.5) + 1)).text);
    print_marks(out, box, watch, WATCH_MESSAGE);
}

/* ---- JSON ---- */

static json_t *mark_json(const struct blackbox *box, const struct wire_box_mark *mark, enum watch_kind kind)
{
    if (!mark)
        return json_null();
    json_t *out = json_pack("{s:o, s:I}", "end_ns", view_time_json(box, mark->end), "ns", (json_int_t)mark->ns);
    if (kind == WATCH_LEAST)
        json_object_set_new(out, "gbs", json_real(watch_rate(mark) / GB));
    if (kind != WATCH_MESSAGE)
        json_object_set_new(out, "cause", json_string(window_cause_name((enum window_cause)mark->cause)));
    return out;
}

static json_t *marks_json(const struct blackbox *box, const struct wire_box_watch *watch, enum watch_kind kind)
{
    json_t *out = json_object();
    for (int span = 0; span < WIRE_WATCH_SPANS; span++)
        json_object_set_new(out, keys[span],
                            mark_json(box, watch_mark(watch, kind, (enum wire_watch_span)span, box->now), kind));
    return out;
}

static json_t *slows_json(const struct blackbox *box, const struct wire_box_watch *watch)
{
    const struct wire_box_slow *slow;
    json_t *out = json_array();
    for (size_t i = 0; (slow = watch_slow(watch, i)); i++)
        json_array_append_new(out,
                              json_pack("{s:o, s:o, s:f, s:f, s:i, s:s}", "begin_ns", view_time_json(box, slow->begin),
                                        "end_ns", view_time_json(box, slow->end), "gbs", watch_slow_rate(slow) / GB,
                                        "usual_gbs", (double)slow->usual / GB, "windows", (int)slow->windows, "cause",
                                        window_cause_name((enum window_cause)slow->cause)));
    return out;
}

/* [[least of the row, count], ...] of rows with a count */
static json_t *rows_json(const uint32_t *counts, unsigned rows, double (*least)(unsigned row))
{
    json_t *out = json_array();
    for (unsigned row = 0; row < rows; row++)
        if (counts[row])
            json_array_append_new(out, json_pack("[f, I]", least(row), (json_int_t)counts[row]));
    return out;
}

json_t *view_watch_json(const struct blackbox *box, const struct blackbox_lane *lane)
{
    const struct wire_box_watch *watch = lane->watch;
    if (!watch)
        return json_null();
    json_t *time = json_object();
    for (int cause = 0; cause < WINDOW_CAUSES; cause++)
        json_object_set_new(time, window_cause_name((enum window_cause)cause),
                            json_integer((json_int_t)watch->time[cause]));
    json_t *out = json_pack("{s:I, s:I, s:I, s:f, s:o, s:o, s:o}", "windows", (json_int_t)watch->windows,
                            "slow_windows", (json_int_t)watch->slow_windows, "alarms", (json_int_t)watch->slows,
                            "usual_gbs", (double)watch->usual / GB, "slowest", marks_json(box, watch, WATCH_LEAST),
                            "slow", slows_json(box, watch), "pause", marks_json(box, watch, WATCH_PAUSE));
    json_t *more = json_pack("{s:o, s:o, s:I, s:o, s:o}", "time_ns", time, "bytes_per_second",
                             rows_json(watch->rates, WIRE_WATCH_RATES, watch_rate_of_row), "messages",
                             (json_int_t)watch->messages, "message", marks_json(box, watch, WATCH_MESSAGE),
                             "message_ns", rows_json(watch->times, WIRE_WATCH_TIMES, watch_time_of_row));
    json_object_update(out, more);
    json_decref(more);
    return out;
}
