/* SPDX-License-Identifier: Apache-2.0 */
#include "master/state.h"

#include "base/error.h"
#include "verdict/verdict.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EVERY_NS   NS_PER_S
#define DAYS_LOOKS 10
#define DAYS_NS    (60 * NS_PER_S) /* between two writes of their file */
#define SETTLE_MS                                                                                                      \
    300 /* from an alarm to the look: one host notices something first, the others report it a moment later */

/* Says a sentence once, until another one is due. */
static void complain(struct master *master)
{
    if (strcmp(master->said, error_last()) != 0)
        fprintf(stderr, "tutti master: %s\n", error_last());
    snprintf(master->said, sizeof master->said, "%s", error_last());
}

/* ---- Verdicts ---- */

static void print_time(uint64_t day)
{
    char text[32];
    struct tm broken;
    time_t seconds = (time_t)(day / NS_PER_S);
    localtime_r(&seconds, &broken);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &broken);
    printf("%s ", text);
}

static void on_begin(void *context, struct verdict *verdict)
{
    struct master *master = context;
    if (master->history)
        history_again(master->history, verdict->finding.culprit.host, verdict->began, verdict->again,
                      sizeof verdict->again);
    verdict_say_again(verdict);
    print_time(verdict->began);
    printf("verdict %llu begins\n", (unsigned long long)verdict->number);
    verdict_print(stdout, &verdict->finding);
    past_begin(&master->past, verdict);
    news_add(&master->news, verdict, false, verdict->began, clock_ns());
    days_note_verdict(&master->days, verdict->finding.culprit.host, verdict->finding.kind, verdict->began);
    if (master->history && !(verdict->row = history_begin(master->history, verdict)))
        complain(master);
}

/* What was likely at first may be certain later. */
static void act(struct master *master)
{
    for (size_t i = 0; master->hook && i < master->ledger.count; i++) {
        struct verdict *verdict = &master->ledger.items[i];
        if (!verdict->number || verdict->acted || verdict->finding.confidence < master->options->sure)
            continue;
        verdict->acted = true;
        hook_push(master->hook, verdict);
    }
}

static void on_end(void *context, const struct verdict *verdict)
{
    struct master *master = context;
    uint64_t day = master_day();
    print_time(day);
    printf("verdict %llu is over, after %s\n", (unsigned long long)verdict->number,
           phrase_time(day - verdict->began).text);
    past_end(&master->past, verdict, day);
    news_add(&master->news, verdict, true, day, clock_ns());
    if (verdict->row && !history_end(master->history, verdict, day))
        complain(master);
}

/* Called by the hook's thread. */
static void on_outcome(void *context, uint64_t number, int64_t row, const char *outcome)
{
    struct master *master = context;
    printf("hook of verdict %llu: %s\n", (unsigned long long)number, outcome);
    fflush(stdout);
    if (row && !history_note(master->history, row, outcome))
        fprintf(stderr, "tutti master: %s\n", error_last());
}

/* ---- Looks ---- */

/* Lanes that are slow, or a hang that lanes may tell of. */
static bool wants_lanes(const struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].kind == FINDING_INTERFACE || findings->items[i].kind == FINDING_LINK ||
            finding_row(findings->items[i].kind)->class == CLASS_COMMUNICATION_HANG)
            return true;
    return false;
}

/* What hosts went through: each process once in ten looks. */
static void note_days(struct master *master, const struct look *look)
{
    for (size_t i = master->looks++ % DAYS_LOOKS; i < look->count; i += DAYS_LOOKS)
        if (look->boxes[i]->alive)
            days_note(&master->days, look->boxes[i], look->boxes[i]->header.host, master_day());
}

/* A file that cannot be written costs nothing else. The caller holds the lock. */
static void keep_days(struct master *master, bool now)
{
    uint64_t kept = master->days_kept;
    if (!master->options->days || !days_changed(&master->days) || (!now && clock_ns() < kept + DAYS_NS))
        return;
    master->days_kept = clock_ns();
    if (days_save(&master->days, master->options->days) == TUTTI_SUCCESS)
        days_clean(&master->days);
    else
        complain(master);
}

/* The rules work on a look of their own, while reports come in. */
static void look(struct master *master)
{
    const struct ledger_events events = {master, on_begin, on_end};
    struct job_look now;
    pthread_mutex_lock(&master->lock);
    job_forget(&master->job, clock_ns());
    bool fine = job_look(&master->job, clock_ns(), &now);
    pthread_mutex_unlock(&master->lock);
    if (!fine) {
        error_note(TUTTI_SYSTEM_ERROR, "no memory for a look at all processes");
        complain(master);
        return;
    }
    uint64_t begun = clock_ns();
    const struct snapshot snapshot = {
        .now = now.look, .before = master->before.look, .stuck = master->options->stuck, .watched = true};
    struct findings findings = master->before.look.count ? diagnosis_find(&snapshot) : (struct findings){0};
    const struct past_sum sum = past_sum(&now.look, begun);
    pthread_mutex_lock(&master->lock);
    master->analysis = clock_ns() - begun;
    if (wants_lanes(&findings))
        job_look_closer(&master->job, clock_ns());
    ledger_update(&master->ledger, &findings, master_day(), &events);
    act(master);
    past_note(&master->past, &sum, master_day(), ledger_standing(&master->ledger));
    note_days(master, &now.look);
    keep_days(master, false);
    pthread_mutex_unlock(&master->lock);
    fflush(stdout);
    findings_free(&findings);
    job_look_free(&master->before);
    master->before = now;
}

/* Looks soon: SIGUSR1 asks for it, and an alarm sends that signal, too. */
static void loop(struct master *master, const sigset_t *signals)
{
    for (;;) {
        const struct timespec second = {.tv_sec = EVERY_NS / NS_PER_S};
        int number = sigtimedwait(signals, NULL, &second);
        if (number == SIGINT || number == SIGTERM)
            return;
        if (number == SIGUSR1)
            poll(NULL, 0, SETTLE_MS);
        look(master);
    }
}

/* ---- Beginning and end ---- */

static bool open_all(struct master *master, const struct serve_options *serve)
{
    const struct master_options *options = master->options;
    struct hook_options hook = options->hook;
    hook.context = master;
    hook.outcome = on_outcome;
    if (options->history && !(master->history = history_open(options->history, options->job)))
        return false;
    if ((hook.command || hook.url) && !(master->hook = hook_open(&hook)))
        return false;
    if (!days_open(&master->days)) {
        error_note(TUTTI_SYSTEM_ERROR, "no memory");
        return false;
    }
    if (options->days && days_load(&master->days, options->days) != TUTTI_SUCCESS)
        return false;
    if (!(master->sources = sources_open("tutti master"))) {
        error_note(TUTTI_SYSTEM_ERROR, "no memory");
        return false;
    }
    return (master->server = serve_open(serve)) != NULL;
}

static void close_all(struct master *master)
{
    serve_close(master->server);
    sources_close(master->sources);
    hook_close(master->hook);
    history_close(master->history);
    if (master->days.rows)
        keep_days(master, true);
    days_close(&master->days);
    free(master->picture.text);
    job_look_free(&master->before);
    job_free(&master->job);
    pthread_mutex_destroy(&master->lock);
    free(master);
}

bool master_run(const struct master_options *options)
{
    char text[NET_TEXT];
    sigset_t signals;
    struct serve_door door = options->door;
    struct master *master = calloc(1, sizeof *master);
    if (!master) {
        fprintf(stderr, "tutti master: no memory\n");
        return false;
    }
    master->options = options;
    pthread_mutex_init(&master->lock, NULL);
    news_open(&master->news);
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* set before there are threads that would take the signals */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a history that may not grow fails by its result */
    const struct serve_options serve = {
        .door = &door,
        .token = &options->token,
        .uploads = MASTER_UPLOADS,
        .context = master,
        .on_post = master_post,
        .on_page = master_page,
        .pages = "There are /, /page, /verdicts, /past, /days, /network, /history and /metrics",
        .on_refusal = master_refusal};
    bool fine = open_all(master, &serve);
    if (fine) {
        const char *s = door.certificate ? "s" : "";
        printf("Agents report to http%s://%s\n", s, net_format(&door.at, text));
        printf("Browsers find a page at http%s://%s/page: any name, and the token as password\n", s, text);
        fflush(stdout);
        loop(master, &signals);
    } else {
        complain(master);
    }
    close_all(master);
    return fine;
}
