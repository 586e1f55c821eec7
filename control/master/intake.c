/* SPDX-License-Identifier: Apache-2.0 */
/* Takes reports, one by one or as an agent passes them on. */
#include "master/state.h"

#include "base/error.h"
#include "report/bundle.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAY_OK         200
#define SAY_LANES      202 /* taken; the next report must have lanes */
#define SAY_UNREADABLE 400
#define SAY_CONFLICT   409
#define SAY_ALL        428

static unsigned take(struct master *master, struct report *report, const struct job_origin *origin,
                     char sentence[SERVE_SENTENCE])
{
    pthread_mutex_lock(&master->lock);
    size_t hosts = master->job.count;
    enum job_answer answer = job_take(&master->job, report, origin, clock_ns(), master_day());
    master->reports += answer == JOB_TAKEN;
    bool is_new = master->job.count > hosts;
    bool lanes = report->has_lanes && job_wants_lanes(&master->job, report->host, clock_ns());
    pthread_mutex_unlock(&master->lock);
    if (answer == JOB_REFUSES)
        snprintf(sentence, SERVE_SENTENCE, "%s", error_last());
    else
        snprintf(sentence, SERVE_SENTENCE, "%s", answer == JOB_TAKEN ? "taken" : "send everything");
    if (is_new) {
        printf("host %s reports: %zu process%s\n", report->host, report->count, report->count == 1 ? "" : "es");
        fflush(stdout);
    }
    if (answer == JOB_TAKEN && report->alarm)
        kill(getpid(), SIGUSR1);
    if (answer == JOB_TAKEN)
        return lanes ? SAY_LANES : SAY_OK;
    return answer == JOB_WANTS_ALL ? SAY_ALL : SAY_CONFLICT;
}

void master_refusal(void *context, const char *from, const char *sentence)
{
    struct master *master = context;
    sources_refused(master->sources, from, sentence, clock_ns());
    pthread_mutex_lock(&master->lock);
    master->refused++;
    snprintf(master->complaint, sizeof master->complaint, "%s", sources_complaint(master->sources));
    pthread_mutex_unlock(&master->lock);
}

static unsigned take_bytes(struct master *master, const void *bytes, size_t size, const struct job_origin *origin,
                           char sentence[SERVE_SENTENCE])
{
    struct report report;
    if (report_read(bytes, size, &report) != TUTTI_SUCCESS) {
        snprintf(sentence, SERVE_SENTENCE, "%s", error_last());
        master_refusal(master, origin->source, sentence);
        return SAY_UNREADABLE;
    }
    unsigned status = sources_admit(master->sources, origin->source, report.host, clock_ns(), sentence);
    if (!status)
        status = take(master, &report, origin, sentence);
    report_free(&report);
    if (status >= 400 && status != SAY_ALL)
        master_refusal(master, origin->source, sentence);
    return status;
}

/* ---- Bundles ---- */

/* Writes "10.0.0.7 over rack3 row1 10.0.0.1": the first agent of a bundle's report is its author. */
static void write_way(char way[JOB_WAY], const struct relayed *relayed, const char *source)
{
    size_t used = (size_t)snprintf(way, JOB_WAY, "%s", relayed->hops ? relayed->from : source);
    for (size_t i = 0; i < relayed->hops && used < JOB_WAY; i++)
        used += (size_t)snprintf(way + used, JOB_WAY - used, "%s%s", i ? " " : " over ", relayed->via[i]);
}

static void take_bundle(struct master *master, struct serve_request *request, const struct bundle *bundle,
                        const char *source)
{
    struct bundle_answer *answers = calloc(bundle->count + 1, sizeof *answers);
    uint8_t *bytes = NULL;
    size_t size = 0;
    for (size_t i = 0; answers && i < bundle->count; i++) {
        char way[JOB_WAY];
        const struct job_origin origin = {source, way};
        write_way(way, &bundle->reports[i], source);
        answers[i].status =
            take_bytes(master, bundle->reports[i].bytes, bundle->reports[i].size, &origin, answers[i].sentence);
    }
    struct verdict_list verdicts;
    pthread_mutex_lock(&master->lock);
    news_recent(&master->news, clock_ns(), &verdicts);
    pthread_mutex_unlock(&master->lock);
    if (answers)
        bytes = answers_write(answers, bundle->count, &verdicts, &size);
    if (bytes)
        serve_answer(request, SAY_OK, bytes, size, 0);
    else
        serve_say(request, 503, "no memory", 0);
    free(bytes);
    free(answers);
}

static void note_complaint(struct master *master)
{
    pthread_mutex_lock(&master->lock);
    snprintf(master->complaint, sizeof master->complaint, "%s", sources_complaint(master->sources));
    pthread_mutex_unlock(&master->lock);
}

void master_post(void *context, struct serve_request *request, const struct serve_post *post)
{
    struct master *master = context;
    char sentence[SERVE_SENTENCE] = "";
    struct bundle bundle;
    const struct job_origin origin = {post->from, post->from};
    if (!post->bundle) {
        unsigned status = take_bytes(master, post->bytes, post->size, &origin, sentence);
        serve_say(request, status, sentence, 0);
    } else if (bundle_read(post->bytes, post->size, &bundle) != TUTTI_SUCCESS) {
        snprintf(sentence, sizeof sentence, "%s", error_last());
        master_refusal(master, post->from, sentence);
        serve_say(request, SAY_UNREADABLE, sentence, 0);
    } else {
        sources_heard(master->sources, post->from, bundle.complaint, clock_ns());
        note_complaint(master);
        take_bundle(master, request, &bundle, post->from);
        bundle_free(&bundle);
    }
}
