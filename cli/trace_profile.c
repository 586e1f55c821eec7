/* SPDX-License-Identifier: Apache-2.0 */
/* tutti trace --profile: the times of calls, lanes and ranks, as tables or JSON. */
#include "cli/trace.h"
#include "cli/trace_set.h"
#include "cli/trace_text.h"
#include "cli/trace_values.h"

#include "diagnosis/profile.h"

#include <inttypes.h>
#include <string.h>

#define CALLS_SHOWN 16 /* latest calls of a communicator of a process; --all-ops shows all */

static const struct blackbox *box_of(const struct view_set *set, size_t process)
{
    return set->boxes[process];
}

/* The rank of a process in the largest of its communicators, which names processes; -1: it has none. */
static int rank_of(const struct view_set *set, size_t process)
{
    const struct blackbox_comm *world = view_world(box_of(set, process));
    return world ? world->rank : -1;
}

/* ---- Tables ---- */

/* Shows the latest calls of a communicator that sent segments to other processes, or registered memory. */
static bool is_shown(const struct view_options *options, const struct profile *profile, size_t index)
{
    const struct profile_call *call = &profile->calls[index];
    size_t later = 0;
    if (options->all_ops)
        return true;
    for (size_t i = index + 1; i < profile->call_count && profile->calls[i].comm == call->comm; i++)
        later += profile->calls[i].bytes || profile->calls[i].registering;
    return (call->bytes || call->registering) && later < CALLS_SHOWN;
}

static void print_calls(const struct view_options *options, const struct view_set *set, const struct profile *profile)
{
    printf("%5s %-20s %8s %5s %-14s %12s %12s %-10s %10s %10s %10s %10s %10s\n", "RANK", "COMMUNICATOR", "CALL", "STEP",
           "COLLECTIVE", "BYTES", "SENT", "INTERFACE", "TIME", "REGISTER", "CONTROL", "DATA", "REST");
    for (size_t i = 0; i < profile->call_count; i++) {
        const struct profile_call *call = &profile->calls[i];
        if (!is_shown(options, profile, i))
            continue;
        printf("%5d %-20.20s %8" PRIu64 " %5" PRIu64 " %-14s %12" PRIu64 " %12" PRIu64 " %-10s %10s",
               rank_of(set, call->process), phrase_name(call->comm), call->op->seq, call->step,
               blackbox_collective_name(call->op->collective), call->op->bytes, call->bytes,
               call->interface && *call->interface ? call->interface : "-",
               phrase_time(call->op->end - call->op->begin).text);
        printf(" %10s", phrase_time(call->registering).text);
        printf(" %10s", phrase_time(call->control).text);
        printf(" %10s", phrase_time(call->data).text);
        printf(" %10s\n", phrase_time(call->rest).text);
    }
    if (!options->all_ops)
        printf("Calls that sent no segment to another process are left out: --all-ops shows them.\n");
    printf("REGISTER: memory was registered. CONTROL: nothing was under way, and the peer's word was awaited. DATA: "
           "segments "
           "were under way.\nREST: waits for others' data, reduces, copies. SENT: to other processes, in segments.\n");
}

static void print_lanes(const struct view_set *set, const struct profile *profile)
{
    printf("\n%5s %5s %-9s %9s %-10s %9s %12s %8s %7s %9s %10s\n", "RANK", "LANE", "TRANSPORT", "PEER", "INTERFACE",
           "SEGMENTS", "BYTES", "GB/s", "IDLE", "PUTS/s", "GAP");
    for (size_t i = 0; i < profile->lane_count; i++) {
        const struct profile_lane *lane = &profile->lanes[i];
        double idle = lane->span ? 100 * (1 - (double)lane->busy / (double)lane->span) : 0;
        printf("%5d %5" PRIu32 " %-9s %9" PRIu32 " %-10s %9" PRIu64 " %12" PRIu64 " %8.3f %5.1f %% %9.1f %10s\n",
               rank_of(set, lane->process), lane->lane->index, lane->lane->transport, lane->lane->peer_pid,
               *lane->lane->interface ? lane->lane->interface : "-", lane->segments, lane->bytes,
               profile_rate(lane->bytes, lane->busy) / 1e9, idle, profile_rate(lane->segments, lane->span),
               phrase_time(lane->gap).text);
    }
    printf("GB/s: while something was under way. IDLE: nothing was, from the first put that is remembered to the last "
           "landing. GAP: the median from put to put.\n");
}

static void print_ranks(const struct view_set *set, const struct profile *profile)
{
    printf("\n%5s %9s %-24s %8s\n", "RANK", "PROCESS", "HOST", "GB/s");
    for (size_t i = 0; i < profile->rank_count; i++) {
        const struct profile_rank *rank = &profile->ranks[i];
        const struct blackbox *box = box_of(set, rank->process);
        printf("%5d %9" PRIu32 " %-24s %8.3f%s\n", rank_of(set, rank->process), box->header.pid, box->header.host,
               profile_rate(rank->bytes, rank->busy) / 1e9, rank->slow ? "  slow: less than half of the median" : "");
    }
}

/* ---- JSON ---- */

static json_t *call_json(const struct view_set *set, const struct profile_call *call)
{
    const struct blackbox *box = box_of(set, call->process);
    json_t *out = json_pack(
        "{s:i, s:i, s:o, s:o, s:o, s:i, s:I, s:I, s:s, s:I, s:I, s:o}", "rank", rank_of(set, call->process), "pid",
        (int)box->header.pid, "host", view_text_json(box->header.host), "comm", view_hex_json(call->comm->id), "name",
        view_text_json(call->comm->name), "ranks", call->comm->nranks, "seq", (json_int_t)call->op->seq, "step",
        (json_int_t)call->step, "collective", blackbox_collective_name(call->op->collective), "bytes",
        (json_int_t)call->op->bytes, "sent", (json_int_t)call->bytes, "interface",
        call->interface ? view_text_json(call->interface) : json_null());
    json_t *more = json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "begin_ns", view_time_json(box, call->op->begin),
                             "time_ns", (json_int_t)(call->op->end - call->op->begin), "registering_ns",
                             (json_int_t)call->registering, "control_ns", (json_int_t)call->control, "data_ns",
                             (json_int_t)call->data, "rest_ns", (json_int_t)call->rest);
    json_object_update(out, more);
    json_decref(more);
    return out;
}

static json_t *lane_json(const struct view_set *set, const struct profile_lane *lane)
{
    return json_pack("{s:i, s:i, s:i, s:o, s:i, s:o, s:I, s:I, s:I, s:I, s:I}", "rank", rank_of(set, lane->process),
                     "pid", (int)box_of(set, lane->process)->header.pid, "lane", (int)lane->lane->index, "transport",
                     view_text_json(lane->lane->transport), "peer_pid", (int)lane->lane->peer_pid, "interface",
                     view_text_json(lane->lane->interface), "segments", (json_int_t)lane->segments, "bytes",
                     (json_int_t)lane->bytes, "span_ns", (json_int_t)lane->span, "busy_ns", (json_int_t)lane->busy,
                     "gap_ns", (json_int_t)lane->gap);
}

static json_t *rank_json(const struct view_set *set, const struct profile_rank *rank)
{
    return json_pack("{s:i, s:i, s:I, s:I, s:b}", "rank", rank_of(set, rank->process), "pid",
                     (int)box_of(set, rank->process)->header.pid, "bytes", (json_int_t)rank->bytes, "busy_ns",
                     (json_int_t)rank->busy, "slow", rank->slow);
}

static int print_json(const struct view_set *set, const struct profile *profile)
{
    json_t *calls = json_array(), *lanes = json_array(), *ranks = json_array();
    for (size_t i = 0; i < profile->call_count; i++)
        json_array_append_new(calls, call_json(set, &profile->calls[i]));
    for (size_t i = 0; i < profile->lane_count; i++)
        json_array_append_new(lanes, lane_json(set, &profile->lanes[i]));
    for (size_t i = 0; i < profile->rank_count; i++)
        json_array_append_new(ranks, rank_json(set, &profile->ranks[i]));
    json_t *all = json_pack("{s:i, s:o, s:o, s:o}", "version", 1, "calls", calls, "lanes", lanes, "ranks", ranks);
    bool fine = all && json_dumpf(all, stdout, JSON_INDENT(1)) == 0 && putchar('\n') != EOF && fflush(stdout) == 0;
    json_decref(all);
    return fine ? VIEW_SHOWN : VIEW_FAILED;
}

int view_profile(const struct view_options *options, const struct view_set *set)
{
    const struct snapshot snapshot = {.now = {set->boxes, NULL, set->count}, .stuck = options->stuck};
    struct profile profile;
    int status = VIEW_SHOWN;
    if (!profile_look(&snapshot, 0, &profile)) {
        fprintf(stderr, "tutti trace: no memory for a profile\n");
        status = VIEW_FAILED;
    } else if (options->json) {
        status = print_json(set, &profile);
    } else if (set->count) {
        print_calls(options, set, &profile);
        print_lanes(set, &profile);
        print_ranks(set, &profile);
    }
    profile_free(&profile);
    return status;
}
