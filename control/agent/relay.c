/* SPDX-License-Identifier: Apache-2.0 */
/* Passes other agents' reports from the server's thread, through a queue, to the agent's thread. */
#include "agent/agent.h"

#include "base/clock.h"
#include "base/error.h"
#include "serve/sources.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define UPLOADS (64u << 20) /* bytes that come in, or wait */

/* One request: a report, or a bundle of reports. It is answered when all its reports are. */
struct relay_waiting {
    struct serve_request *request;
    struct bundle bundle; /* nothing, for a single report */
    bool single, failed;  /* failed: the way to the master failed */
    size_t count, open;   /* all its reports; those without an answer */
    struct bundle_answer *answers;
};

/* One report on its way. */
struct relay_item {
    struct relay_item *next;
    struct relay_waiting *waiting;
    size_t at; /* its place in the request */
    struct relayed report;
};

struct relay {
    struct relay_options options;
    struct serve_options serve;
    struct server *server;
    struct sources *sources; /* owned by the server's thread */
    pthread_mutex_t lock;    /* protects all below */
    int fd;
    struct relay_item *first, **last; /* waiting to be passed on */
    struct relay_item *away;          /* collected, and not yet answered */
    uint64_t failing;                 /* there is no way to the master until then */
    char why[BUNDLE_SENTENCE], complaint[BUNDLE_SENTENCE];
    struct verdict_list verdicts; /* of the latest answer */
    bool closing;
};

/* ---- Answers ---- */

static void send_answers(const struct relay *relay, const struct relay_waiting *waiting)
{
    size_t size = 0;
    uint8_t *bytes = answers_write(waiting->answers, waiting->count, &relay->verdicts, &size);
    if (bytes)
        serve_answer(waiting->request, 200, bytes, size, 0);
    else
        serve_say(waiting->request, 503, "no memory", 0);
    free(bytes);
}

static unsigned seconds_left(uint64_t until)
{
    return (unsigned)(clock_left_ms(until) / 1000) + 1;
}

/* Ends the request by an answer to its sender. An agent that passes on what others told hears that there is no way as
 * they do. */
static void finish(const struct relay *relay, struct relay_waiting *waiting)
{
    if (waiting->failed)
        serve_say(waiting->request, 503, relay->why, seconds_left(relay->failing));
    else if (waiting->single)
        serve_say(waiting->request, waiting->answers->status, waiting->answers->sentence, 0);
    else
        send_answers(relay, waiting);
    bundle_free(&waiting->bundle);
    free(waiting->answers);
    free(waiting);
}

/* NULL: there is no way to the master. */
static void settle(const struct relay *relay, struct relay_waiting *waiting, size_t at,
                   const struct bundle_answer *answer)
{
    if (answer)
        waiting->answers[at] = *answer;
    else
        waiting->failed = true;
    if (--waiting->open == 0)
        finish(relay, waiting);
}

/* ---- What comes in: the server's thread ---- */

static void on_refusal(void *context, const char *from, const char *sentence)
{
    struct relay *relay = context;
    sources_refused(relay->sources, from, sentence, clock_ns());
    pthread_mutex_lock(&relay->lock);
    snprintf(relay->complaint, sizeof relay->complaint, "%s", sources_complaint(relay->sources));
    pthread_mutex_unlock(&relay->lock);
}

/* May this report be passed on? If not, says why. */
static bool judge(struct relay *relay, const struct relayed *relayed, const char *from, struct bundle_answer *out)
{
    struct report report;
    if (report_read(relayed->bytes, relayed->size, &report) != TUTTI_SUCCESS) {
        out->status = 400;
        snprintf(out->sentence, sizeof out->sentence, "%s", error_last());
        return false;
    }
    if (report.agent == relay->options.agent || relayed->hops >= BUNDLE_HOPS) {
        out->status = 508;
        snprintf(out->sentence, sizeof out->sentence,
                 "agents report in a circle: what host %s tells has come to host %s before", report.host,
                 relay->options.host);
    } else {
        out->status = sources_admit(relay->sources, from, report.host, clock_ns(), out->sentence);
    }
    report_free(&report);
    return !out->status;
}

static struct relay_item *make_item(struct relay *relay, struct relay_waiting *waiting, size_t at,
                                    const struct relayed *report, const char *from)
{
    struct relay_item *item = calloc(1, sizeof *item);
    if (!item)
        return NULL;
    *item = (struct relay_item){NULL, waiting, at, *report};
    if (!report->hops)
        snprintf(item->report.from, sizeof item->report.from, "%s", from);
    snprintf(item->report.via[item->report.hops++], sizeof item->report.via[0], "%s", relay->options.host);
    return item;
}

/* The caller holds the lock. */
static void enqueue(struct relay *relay, struct relay_item *item)
{
    *relay->last = item;
    relay->last = &item->next;
    if (eventfd_write(relay->fd, 1) != 0)
        return; /* the descriptor is readable already */
}

static void take_one(struct relay *relay, struct relay_waiting *waiting, size_t at, const struct relayed *report,
                     const char *from)
{
    struct bundle_answer answer = {0};
    bool good = judge(relay, report, from, &answer);
    struct relay_item *item = good ? make_item(relay, waiting, at, report, from) : NULL;
    if (!good)
        on_refusal(relay, from, answer.sentence);
    pthread_mutex_lock(&relay->lock);
    if (item)
        enqueue(relay, item);
    else
        settle(relay, waiting, at, good ? NULL : &answer);
    pthread_mutex_unlock(&relay->lock);
}

/* Does nothing get through now? Then this failure is the answer. */
static bool turn_away(struct relay *relay, struct serve_request *request)
{
    pthread_mutex_lock(&relay->lock);
    bool away = relay->closing || clock_ns() < relay->failing;
    if (away)
        serve_say(request, 503, relay->why, seconds_left(relay->failing));
    pthread_mutex_unlock(&relay->lock);
    return away;
}

/* NULL: the request was answered. */
static struct relay_waiting *open_waiting(struct relay *relay, struct serve_request *request,
                                          const struct serve_post *post)
{
    struct bundle bundle = {0};
    if (post->bundle && bundle_read(post->bytes, post->size, &bundle) != TUTTI_SUCCESS) {
        on_refusal(relay, post->from, error_last());
        serve_say(request, 400, error_last(), 0);
        return NULL;
    }
    struct relay_waiting *waiting = calloc(1, sizeof *waiting);
    size_t count = post->bundle ? bundle.count : 1;
    struct bundle_answer *answers = calloc(count + 1, sizeof *answers);
    if (!waiting || !answers) {
        free(waiting);
        free(answers);
        bundle_free(&bundle);
        serve_say(request, 503, "no memory", 0);
        return NULL;
    }
    *waiting = (struct relay_waiting){.request = request,
                                      .bundle = bundle,
                                      .single = !post->bundle,
                                      .count = count,
                                      .open = count + 1,
                                      .answers = answers};
    return waiting;
}

static void on_post(void *context, struct serve_request *request, const struct serve_post *post)
{
    struct relay *relay = context;
    const struct relayed single = {.bytes = post->bytes, .size = post->size};
    struct relay_waiting *waiting = turn_away(relay, request) ? NULL : open_waiting(relay, request, post);
    if (!waiting)
        return;
    if (!waiting->single)
        sources_heard(relay->sources, post->from, waiting->bundle.complaint, clock_ns());
    for (size_t i = 0; i < waiting->count; i++)
        take_one(relay, waiting, i, waiting->single ? &single : &waiting->bundle.reports[i], post->from);
    pthread_mutex_lock(&relay->lock);
    snprintf(relay->complaint, sizeof relay->complaint, "%s", sources_complaint(relay->sources));
    if (--waiting->open == 0) /* the request stays open until all its reports were looked at */
        finish(relay, waiting);
    pthread_mutex_unlock(&relay->lock);
}

/* ---- What goes on: the agent's thread ---- */

int relay_fd(const struct relay *relay)
{
    return relay->fd;
}

void relay_complaint(struct relay *relay, char out[BUNDLE_SENTENCE])
{
    pthread_mutex_lock(&relay->lock);
    memcpy(out, relay->complaint, BUNDLE_SENTENCE);
    pthread_mutex_unlock(&relay->lock);
}

static size_t bytes_of(const struct relayed *reports, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += reports[i].size + sizeof reports[i].via + sizeof reports[i].from;
    return bytes;
}

size_t relay_collect(struct relay *relay, struct relayed *reports, size_t count)
{
    eventfd_t events;
    size_t bytes = bytes_of(reports, count);
    pthread_mutex_lock(&relay->lock);
    eventfd_read(relay->fd, &events); /* no requests: then nothing waits */
    struct relay_item **last = &relay->away;
    while (relay->first && count < BUNDLE_REPORTS && bytes + bytes_of(&relay->first->report, 1) <= BUNDLE_BYTES) {
        struct relay_item *item = *last = relay->first;
        last = &item->next;
        relay->first = item->next;
        item->next = NULL;
        bytes += bytes_of(&item->report, 1);
        reports[count++] = item->report;
    }
    if (!relay->first)
        relay->last = &relay->first;
    else
        eventfd_write(relay->fd, 1);
    pthread_mutex_unlock(&relay->lock);
    return count;
}

/* The caller holds the lock. */
static void drop(const struct relay *relay, struct relay_item **list, const struct bundle_answer *answers)
{
    while (*list) {
        struct relay_item *item = *list;
        *list = item->next;
        settle(relay, item->waiting, item->at, answers);
        answers += answers != NULL;
        free(item);
    }
}

void relay_settle(struct relay *relay, const struct bundle_answer *answers, const struct verdict_list *verdicts)
{
    pthread_mutex_lock(&relay->lock);
    relay->failing = 0;
    relay->verdicts = *verdicts;
    drop(relay, &relay->away, answers);
    pthread_mutex_unlock(&relay->lock);
}

/* The caller holds the lock. */
static void turn_all_away(struct relay *relay, const char *sentence)
{
    snprintf(relay->why, sizeof relay->why, "%s", sentence);
    drop(relay, &relay->away, NULL);
    drop(relay, &relay->first, NULL);
    relay->last = &relay->first;
}

void relay_fail(struct relay *relay, const char *sentence, uint64_t until)
{
    pthread_mutex_lock(&relay->lock);
    relay->failing = until;
    turn_all_away(relay, sentence);
    pthread_mutex_unlock(&relay->lock);
}

/* ---- Beginning and end ---- */

struct relay *relay_open(const struct relay_options *options)
{
    struct relay *relay = calloc(1, sizeof *relay);
    if (!relay) {
        error_note(TUTTI_SYSTEM_ERROR, "no memory");
        return NULL;
    }
    relay->options = *options;
    relay->serve = (struct serve_options){.door = options->door,
                                          .token = options->token,
                                          .uploads = UPLOADS,
                                          .context = relay,
                                          .on_post = on_post,
                                          .pages = "There is nothing to read here: ask the master",
                                          .on_refusal = on_refusal};
    relay->last = &relay->first;
    pthread_mutex_init(&relay->lock, NULL);
    relay->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    relay->sources = sources_open("tutti agent");
    if (relay->fd < 0 || !relay->sources)
        error_note(TUTTI_SYSTEM_ERROR, "no memory, or no more descriptors");
    else if ((relay->server = serve_open(&relay->serve)))
        return relay;
    relay_close(relay);
    return NULL;
}

void relay_close(struct relay *relay)
{
    if (!relay)
        return;
    pthread_mutex_lock(&relay->lock);
    relay->closing = true;
    turn_all_away(relay, "the agent that passes reports on has ended");
    pthread_mutex_unlock(&relay->lock);
    serve_close(relay->server);
    sources_close(relay->sources);
    if (relay->fd >= 0)
        close(relay->fd);
    pthread_mutex_destroy(&relay->lock);
    free(relay);
}
