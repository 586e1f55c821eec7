/* SPDX-License-Identifier: Apache-2.0 */
/* Is it the network? People get a page that they can send to those who run the network. For people: a page that can be
 * sent to those who run it. For programs: JSON. */
#include "verdict/verdict.h"

#include "diagnosis/phrase.h"

#include <inttypes.h>

#define STEPS_SHOWN 16

static const char *const meanings[MOMENTS] = {
    [MOMENT_NETWORK] = "data of the rank was on its way to another host",
    [MOMENT_PROGRAM] = "in no call: the program's own time",
    [MOMENT_LATE] = "in a collective to which the last rank had not come",
    [MOMENT_STARVED] = "data was there and wanted, and the process did not put it: no processor",
    [MOMENT_RECEIVER] = "data was there, and its receiver did not want it yet",
    [MOMENT_SENDER] = "the receiver wanted data that the rank did not have yet",
    [MOMENT_WAITS] = "in a call with nothing to send: waits for others' data, reduces, copies within the host",
};

static double share(uint64_t part, uint64_t whole)
{
    return whole ? 100 * (double)part / (double)whole : 0;
}

static double rate(const struct network_interface *interface)
{
    return interface->busy ? (double)interface->bytes / (double)interface->busy : 0; /* GB/s */
}

/* ---- Text ---- */

static void print_moments(FILE *out, const struct network_job *job)
{
    uint64_t sum = moments_sum(&job->time);
    fprintf(out, "  %-14s %7s %10s\n", "TIME OF RANKS", "SHARE", "EACH");
    for (enum moment moment = 0; moment < MOMENTS; moment++)
        fprintf(out, "  %-14s %5.1f %% %10s  %s\n", moment_name(moment), share(job->time.ns[moment], sum),
                phrase_time(job->time.ns[moment] / job->ranks).text, meanings[moment]);
}

static void print_steps(FILE *out, const struct network_job *job)
{
    size_t first = job->step_count > STEPS_SHOWN ? job->step_count - STEPS_SHOWN : 0;
    if (!job->step_count)
        return;
    fprintf(out, "\n  STEPS OF %zu CALL%s, the latest %zu of %zu that are remembered\n", job->period,
            job->period == 1 ? "" : "S", job->step_count - first, job->step_count);
    fprintf(out, "  %9s %5s %10s %10s", "CALL", "RANKS", "TIME", "LONGEST");
    for (enum moment moment = 0; moment < MOMENTS; moment++)
        fprintf(out, " %13s", moment_name(moment));
    fputc('\n', out);
    for (size_t i = first; i < job->step_count; i++) {
        const struct network_step *step = &job->steps[i];
        uint64_t sum = moments_sum(&step->time);
        fprintf(out, "  %9" PRIu64 " %5zu %10s %10s", step->first, step->ranks, phrase_time(sum / step->ranks).text,
                phrase_time(step->longest).text);
        for (enum moment moment = 0; moment < MOMENTS; moment++)
            fprintf(out, " %11.1f %%", share(step->time.ns[moment], sum));
        fputc('\n', out);
    }
}

static void print_interfaces(FILE *out, const struct network_job *job)
{
    if (!job->interface_count)
        return;
    fprintf(out, "\n  %-20s %-10s %9s %12s %10s %8s %8s %9s %10s %10s\n", "HOST", "INTERFACE", "SEGMENTS", "BYTES",
            "BUSY", "GB/s", "OF RATE", "LENGTH", "MEDIAN", "BEST");
    for (size_t i = 0; i < job->interface_count; i++) {
        const struct network_interface *one = &job->interfaces[i];
        char of[16] = "-";
        if (one->rate)
            snprintf(of, sizeof of, "%.0f %%", 100 * rate(one) * 8000 / one->rate);
        fprintf(out, "  %-20s %-10s %9" PRIu64 " %12" PRIu64 " %10s %8.3f %8s %9" PRIu32 " %10s %10s\n", one->host,
                *one->name ? one->name : "-", one->segments, one->bytes, phrase_time(one->busy).text, rate(one), of,
                one->length, phrase_time(one->median).text, phrase_time(one->best).text);
    }
    fprintf(out,
            "  BUSY: something was on its way. GB/s: while busy. MEDIAN, BEST: what segments of LENGTH bytes took, "
            "each in its turn;\n  one in eight took no longer than BEST.\n");
}

static void print_job(FILE *out, const struct network_job *job, const struct findings *findings)
{
    char sentence[FINDING_SENTENCE];
    network_conclude(job, findings, sentence, sizeof sentence);
    fprintf(out, "NETWORK: job %s, %zu rank%s on %zu host%s: %s\n", *job->name ? job->name : "(no name)", job->ranks,
            job->ranks == 1 ? "" : "s", job->hosts, job->hosts == 1 ? "" : "s", sentence);
    fprintf(out, "  Black boxes remember the last %s of each rank, on average", phrase_time(job->seen).text);
    if (job->without && job->without < job->ranks)
        fprintf(out, "; %zu rank%s sent nothing to other hosts", job->without, job->without == 1 ? "" : "s");
    fprintf(out, ".\n\n");
    print_moments(out, job);
    print_steps(out, job);
    print_interfaces(out, job);
    fputc('\n', out);
}

void verdict_print_network(FILE *out, const struct network_report *report, const struct findings *findings)
{
    for (size_t i = 0; i < report->count; i++)
        print_job(out, &report->jobs[i], findings);
}

/* ---- JSON ---- */

static json_t *moments_json(const struct moments *moments)
{
    json_t *all = json_object();
    for (enum moment moment = 0; moment < MOMENTS; moment++)
        json_object_set_new(all, moment_name(moment), json_integer((json_int_t)moments->ns[moment]));
    json_object_set_new(all, "charged", json_integer((json_int_t)moments->charged));
    return all;
}

static json_t *steps_json(const struct network_job *job)
{
    json_t *all = json_array();
    for (size_t i = 0; i < job->step_count; i++) {
        const struct network_step *step = &job->steps[i];
        json_array_append_new(all, json_pack("{s:I, s:I, s:I, s:o}", "first", (json_int_t)step->first, "ranks",
                                             (json_int_t)step->ranks, "longest_ns", (json_int_t)step->longest,
                                             "time_ns", moments_json(&step->time)));
    }
    return all;
}

static json_t *interfaces_json(const struct network_job *job)
{
    json_t *all = json_array();
    for (size_t i = 0; i < job->interface_count; i++) {
        const struct network_interface *one = &job->interfaces[i];
        json_array_append_new(all, json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "host",
                                             verdict_text(one->host), "interface", verdict_text(one->name), "segments",
                                             (json_int_t)one->segments, "bytes", (json_int_t)one->bytes, "busy_ns",
                                             (json_int_t)one->busy, "length", (json_int_t)one->length, "median_ns",
                                             (json_int_t)one->median, "best_ns", (json_int_t)one->best, "rate_mbits",
                                             one->rate ? json_integer(one->rate) : json_null()));
    }
    return all;
}

json_t *verdict_network_json(const struct network_report *report, const struct findings *findings)
{
    json_t *all = json_array();
    for (size_t i = 0; i < report->count; i++) {
        const struct network_job *job = &report->jobs[i];
        char sentence[FINDING_SENTENCE];
        network_conclude(job, findings, sentence, sizeof sentence);
        json_array_append_new(all, json_pack("{s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:o, s:o}", "name",
                                             verdict_text(job->name), "ranks", (json_int_t)job->ranks, "hosts",
                                             (json_int_t)job->hosts, "ranks_without_lanes", (json_int_t)job->without,
                                             "seen_ns", (json_int_t)job->seen, "text", verdict_text(sentence),
                                             "time_ns", moments_json(&job->time), "period", (json_int_t)job->period,
                                             "steps", steps_json(job), "interfaces", interfaces_json(job)));
    }
    return all;
}
