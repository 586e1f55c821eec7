/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of lanes, by interface: how quick windows of segments are usually, and what was slowest of late. */
#include "cli/export.h"

#include "wire/boxwatch.h"
#include "wire/boxwindow.h"

#include <inttypes.h>
#include <string.h>

#define INTERFACES_MOST 64 /* of a process; lanes of others are left out */

struct interface_lanes {
    const char *name;
    uint64_t windows, slow, messages;
    double usual;
};

static const char *const spans[WIRE_WATCH_SPANS] = {"1s", "1m", "1h"};

static const char *interface_name(const struct blackbox_lane *lane)
{
    return *lane->interface ? lane->interface : lane->transport;
}

/* The interfaces of a process with lanes that have carried something. */
static size_t gather(const struct blackbox *box, struct interface_lanes out[INTERFACES_MOST])
{
    size_t count = 0;
    for (size_t i = 0; i < box->lane_count; i++) {
        const struct blackbox_lane *lane = &box->lanes[i];
        size_t at = 0;
        if (!lane->watch)
            continue;
        while (at < count && strcmp(out[at].name, interface_name(lane)) != 0)
            at++;
        if (at == INTERFACES_MOST)
            continue;
        if (at == count)
            out[count++] = (struct interface_lanes){.name = interface_name(lane)};
        out[at].windows += lane->watch->windows;
        out[at].slow += lane->watch->slow_windows;
        out[at].messages += lane->watch->messages;
        out[at].usual = (double)lane->watch->usual > out[at].usual ? (double)lane->watch->usual : out[at].usual;
    }
    return count;
}

static void begin(const struct export_writer *w, const char *name, size_t box, const char *interface)
{
    export_open(w, name, w->labels[box]);
    fputc(',', w->out);
    export_label(w->out, "interface", interface);
}

/* The worst of all lanes of the interface. NULL: there was none in this span. */
static const struct wire_box_mark *worst(const struct blackbox *box, const char *interface, enum watch_kind kind,
                                         enum wire_watch_span span)
{
    const struct wire_box_mark *found = NULL;
    for (size_t i = 0; i < box->lane_count; i++) {
        const struct blackbox_lane *lane = &box->lanes[i];
        const struct wire_box_mark *mark =
            strcmp(interface_name(lane), interface) == 0 ? watch_mark(lane->watch, kind, span, box->now) : NULL;
        bool worse = mark && found && kind == WATCH_LEAST ? watch_rate(mark) < watch_rate(found)
                                                          : mark && found && mark->ns > found->ns;
        found = mark && (!found || worse) ? mark : found;
    }
    return found;
}

static void marks(const struct export_writer *w, const char *name, enum watch_kind kind, const char *text)
{
    export_family(w, name, "gauge", text);
    for (size_t i = 0; i < w->set->count; i++) {
        struct interface_lanes interfaces[INTERFACES_MOST];
        size_t count = w->labels[i] ? gather(w->set->boxes[i], interfaces) : 0;
        for (size_t j = 0; j < count; j++)
            for (int span = 0; span < WIRE_WATCH_SPANS; span++) {
                const struct wire_box_mark *mark =
                    worst(w->set->boxes[i], interfaces[j].name, kind, (enum wire_watch_span)span);
                if (!mark)
                    continue;
                begin(w, name, i, interfaces[j].name);
                fprintf(w->out, ",span=\"%s\"", spans[span]);
                if (kind != WATCH_MESSAGE)
                    fprintf(w->out, ",cause=\"%s\"", window_cause_name((enum window_cause)mark->cause));
                fprintf(w->out, "} %.9g\n", kind == WATCH_LEAST ? watch_rate(mark) : (double)mark->ns / 1e9);
            }
    }
}

static void sums(const struct export_writer *w)
{
    static const char *const names[] = {"lane_windows", "lane_windows_slow", "lane_messages_timed"};
    static const char *const texts[] = {
        "Windows of 8 segments that lanes of this interface have carried",
        "Of these, windows of less than half of the usual rate of the lane",
        "Small messages whose time was taken",
    };
    for (int what = 0; what < 3; what++) {
        char name[48];
        snprintf(name, sizeof name, "%s_total", names[what]);
        export_family(w, names[what], "counter", texts[what]);
        for (size_t i = 0; i < w->set->count; i++) {
            struct interface_lanes interfaces[INTERFACES_MOST];
            size_t count = w->labels[i] ? gather(w->set->boxes[i], interfaces) : 0;
            for (size_t j = 0; j < count; j++) {
                begin(w, name, i, interfaces[j].name);
                fprintf(w->out, "} %" PRIu64 "\n",
                        what == 0   ? interfaces[j].windows
                        : what == 1 ? interfaces[j].slow
                                    : interfaces[j].messages);
            }
        }
    }
}

static void usual(const struct export_writer *w)
{
    export_family(w, "lane_usual_bytes_per_second", "gauge",
                  "Rate that nine of ten windows of the quickest lane of this interface stay below");
    for (size_t i = 0; i < w->set->count; i++) {
        struct interface_lanes interfaces[INTERFACES_MOST];
        size_t count = w->labels[i] ? gather(w->set->boxes[i], interfaces) : 0;
        for (size_t j = 0; j < count; j++) {
            begin(w, "lane_usual_bytes_per_second", i, interfaces[j].name);
            fprintf(w->out, "} %.9g\n", interfaces[j].usual);
        }
    }
}

void export_lanes(const struct export_writer *w)
{
    sums(w);
    usual(w);
    marks(w, "lane_slowest_window_bytes_per_second", WATCH_LEAST,
          "Rate of the slowest window of this interface that ended in the span, or up to a third part of it before");
    marks(w, "lane_longest_pause_seconds", WATCH_PAUSE,
          "Longest time in the span in which a lane of this interface stood still, and somebody waited");
    marks(w, "lane_longest_message_seconds", WATCH_MESSAGE,
          "Longest time that a small message took in the span, of those whose time was taken");
}
