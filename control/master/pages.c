/* SPDX-License-Identifier: Apache-2.0 */
/* The master's pages: text for people, JSON for programs, OpenMetrics for Prometheus. */
#include "master/page/files.h"
#include "master/state.h"

#include "verdict/verdict.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY_MOST 1000

static const char type_text[] = "text/plain; charset=utf-8";
static const char type_json[] = "application/json";
static const char type_metrics[] = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/* ---- Text ---- */

static void write_text(const struct master *master, FILE *out)
{
    uint64_t now = clock_ns(), day = master_day();
    size_t count = ledger_standing(&master->ledger);
    fprintf(out, "%zu verdict%s now, %" PRIu64 " in all\n", count, count == 1 ? "" : "s", master->ledger.total);
    for (size_t i = 0; i < master->ledger.count; i++)
        if (master->ledger.items[i].number) {
            fprintf(out, "\nverdict %" PRIu64 ", for %s\n", master->ledger.items[i].number,
                    phrase_time(master_since(day, master->ledger.items[i].began)).text);
            verdict_print(out, &master->ledger.items[i].finding);
        }
    if (master->ledger.left_out)
        fprintf(out, "\n%zu findings more have no place here\n", master->ledger.left_out);
    fprintf(out, "\n%-24s %9s %10s %12s  %s\n", "HOST", "PROCESSES", "HEARD", "CLOCK", "NOTES");
    for (size_t i = 0; i < master->job.count; i++) {
        const struct job_host *host = &master->job.hosts[i];
        fprintf(out, "%-24s %9zu %10s %+9.1f ms %s", host->name, host->count,
                phrase_time(master_since(now, host->heard)).text, -(double)host->clock / 1e6,
                master_silent(host, now) ? " silent," : "");
        fprintf(out, " from %s", host->way);
        if (host->unreadable)
            fprintf(out, ", %" PRIu32 " black boxes cannot be read", host->unreadable);
        if (host->left_out)
            fprintf(out, ", %" PRIu32 " processes left out", host->left_out);
        struct job_unrecorded unrecorded = job_unrecorded(host);
        if (unrecorded.comms)
            fprintf(out, ", %" PRIu64 " communicators without a place in a black box", unrecorded.comms);
        if (unrecorded.lanes)
            fprintf(out, ", %" PRIu64 " lanes without a place in a black box", unrecorded.lanes);
        fputc('\n', out);
    }
    size_t turns = job_lanes_turns(master->job.count);
    if (turns > 1)
        fprintf(out, "LANES: %u hosts at a time tell of theirs, each again after %s; while one seems slow, all do.\n",
                JOB_LANES_HOSTS, phrase_time(turns * JOB_LANES_EVERY_NS).text);
    if (*master->complaint)
        fprintf(out, "Latest refusal: %s\n", master->complaint);
    fprintf(out, "CLOCK: how far a host's clock is ahead, or more: the way of a report is in it. No rule compares "
                 "clocks of two hosts.\n");
}

/* The newest first: day, host, lanes that went down, pauses, slow minutes, verdicts by kind. */
static json_t *days_json(const struct days *days)
{
    json_t *rows = json_array();
    for (size_t i = days->count; i-- > 0;) {
        const struct day_row *row = &days->rows[i];
        json_t *kinds = json_object();
        for (int kind = 0; kind < FINDING_KINDS; kind++)
            if (row->verdicts[kind])
                json_object_set_new(kinds, finding_row((enum finding_kind)kind)->name,
                                    json_integer((json_int_t)row->verdicts[kind]));
        json_array_append_new(rows, json_pack("[s, s, I, I, I, o]", row->day, row->host, (json_int_t)row->lanes,
                                              (json_int_t)row->pauses, (json_int_t)row->slow, kinds));
    }
    return json_pack("{s:i, s:o}", "version", 1, "rows", rows);
}

static char *dump(json_t *value)
{
    char *text = value ? json_dumps(value, JSON_INDENT(1)) : NULL;
    json_decref(value);
    return text;
}

/* ---- OpenMetrics ---- */

static void head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# TYPE %s %s\n# HELP %s %s\n", name, type, name, help);
}

/* Writes the verdicts. Names of hosts hold no character that a label would have to escape. */
static void write_verdicts(const struct ledger *ledger, FILE *out)
{
    head(out, "tutti_verdicts", "counter", "Verdicts since the master began");
    for (int kind = 0; kind < FINDING_KINDS; kind++)
        fprintf(out, "tutti_verdicts_total{kind=\"%s\"} %" PRIu64 "\n", finding_row((enum finding_kind)kind)->name,
                ledger->by_kind[kind]);
    head(out, "tutti_verdict_standing", "gauge", "A verdict that holds now");
    for (size_t i = 0; i < ledger->count; i++) {
        const struct verdict *verdict = &ledger->items[i];
        if (verdict->number)
            fprintf(out,
                    "tutti_verdict_standing{number=\"%" PRIu64
                    "\",kind=\"%s\",confidence=\"%s\",host=\"%s\",rank=\"%d\"} 1\n",
                    verdict->number, finding_row(verdict->finding.kind)->name,
                    confidence_name(verdict->finding.confidence), verdict->finding.culprit.host,
                    verdict->finding.culprit.world_rank);
    }
}

static void write_metrics(const struct master *master, FILE *out)
{
    uint64_t now = clock_ns();
    size_t silent = 0, processes = 0;
    for (size_t i = 0; i < master->job.count; i++) {
        silent += master_silent(&master->job.hosts[i], now);
        processes += master->job.hosts[i].count;
    }
    head(out, "tutti_master_hosts", "gauge", "Hosts whose agents have reported");
    fprintf(out, "tutti_master_hosts{state=\"heard\"} %zu\ntutti_master_hosts{state=\"silent\"} %zu\n",
            master->job.count - silent, silent);
    head(out, "tutti_master_processes", "gauge", "Processes that agents tell of");
    fprintf(out, "tutti_master_processes %zu\n", processes);
    head(out, "tutti_master_reports", "counter", "Reports taken");
    fprintf(out, "tutti_master_reports_total %" PRIu64 "\n", master->reports);
    head(out, "tutti_master_refusals", "counter", "Requests refused: no token, no report, or too large");
    fprintf(out, "tutti_master_refusals_total %" PRIu64 "\n", master->refused);
    head(out, "tutti_master_analysis_seconds", "gauge", "What the latest look at all processes took the rules");
    fprintf(out, "tutti_master_analysis_seconds %.6f\n", (double)master->analysis / 1e9);
    write_verdicts(&master->ledger, out);
    fprintf(out, "# EOF\n");
}

/* ---- Pages ---- */

static char *written(const struct master *master, void (*write)(const struct master *master, FILE *out))
{
    char *body = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&body, &length);
    if (!out)
        return NULL;
    write(master, out);
    if (fclose(out) == 0)
        return body;
    free(body);
    return NULL;
}

/* The caller holds the lock. */
static char *locked_page(struct master *master, const char *url, const char **type)
{
    if (strcmp(url, "/") == 0) {
        *type = type_text;
        return written(master, write_text);
    }
    if (strcmp(url, "/metrics") == 0) {
        *type = type_metrics;
        return written(master, write_metrics);
    }
    *type = type_json;
    if (strcmp(url, "/verdicts") == 0)
        return dump(master_state(master));
    if (strcmp(url, "/days") == 0)
        return dump(days_json(&master->days));
    if (strcmp(url, "/past") == 0)
        return dump(past_json(&master->past));
    if (strcmp(url, "/history") == 0)
        return dump(master->history ? history_json(master->history, HISTORY_MOST) : json_array());
    *type = NULL;
    return NULL;
}

/* A file of the page for browsers, which does not change. */
static char *file_page(const char *url, const char **type)
{
    for (const struct page_file *file = page_files; file->url; file++)
        if (strcmp(url, file->url) == 0) {
            *type = file->type;
            return strdup(file->text);
        }
    return NULL;
}

/* Pages with an argument after their name. The caller does not hold the lock. */
static char *asked_page(struct master *master, const char *url, const char **type)
{
    char host[WIRE_BOX_NAME], id[17];
    unsigned pid;
    int end = 0;
    *type = type_json;
    if (strcmp(url, "/picture") == 0)
        return picture_page(master);
    if (strcmp(url, "/network") == 0) {
        *type = type_text;
        return network_page(master);
    }
    if (sscanf(url, "/calls/%16[0-9a-f]%n", id, &end) == 1 && strlen(id) == 16 && !url[end])
        return calls_page(master, strtoull(id, NULL, 16));
    if (sscanf(url, "/lanes/%63[^/]/%9u%n", host, &pid, &end) == 2 && !url[end])
        return lanes_page(master, host, pid);
    *type = NULL;
    return NULL;
}

char *master_page(void *context, const char *url, const char **type)
{
    struct master *master = context;
    char *body = file_page(url, type);
    if (!body && !*type)
        body = asked_page(master, url, type);
    if (body || *type)
        return body;
    pthread_mutex_lock(&master->lock);
    body = locked_page(master, url, type);
    pthread_mutex_unlock(&master->lock);
    return body;
}
