/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's loop: sends a report each second, at once on an alarm, and rarely where no master takes one. */
#include "agent/agent.h"

#include "base/clock.h"
#include "base/error.h"
#include "days/days.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define EVERY_NS   NS_PER_S
#define ALARM_MS   100 /* between two looks for alarms */
#define PAUSE_MOST 30  /* seconds between two tries */
#define GATHER_MS  50  /* that the reports of others wait for more of them */
#define NICE       10
#define KEEP_NS    (60 * NS_PER_S) /* between two writes of the history */

static volatile bool ended;

static void on_signal(int number)
{
    ended = true;
}

static void prepare_process(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    setpriority(PRIO_PROCESS, 0, NICE); /* the agent of the job comes first */
}

struct agent {
    const struct agent_options *options;
    struct agent_watch *watch;
    struct sender *sender;
    struct relay *relay;     /* NULL: no other agents report here */
    struct relayed *reports; /* room for a bundle; for one report, where there is no relay */
    struct bundle_answer *answers;
    bool whole; /* the master does not know this host, or not what it had */
    bool lanes; /* somebody looks at lanes there */
    bool heard;
    bool cut;                     /* the latest post did not arrive, also with the reports of others */
    unsigned failures;            /* own reports in a row */
    struct verdict_list verdicts; /* that the host's processes can read */
    struct days days;             /* no rows: no history is kept */
    uint64_t kept;                /* when the history was written */
    char said[2][300]; /* the latest complaints, which are not repeated: connections end in two ways by turns */
    unsigned complaints;
};

static void complain(struct agent *agent)
{
    for (size_t i = 0; i < 2; i++)
        if (strncmp(agent->said[i], error_last(), sizeof agent->said[i] - 1) == 0)
            return;
    fprintf(stderr, "tutti agent: %s\n", error_last());
    snprintf(agent->said[agent->complaints++ % 2], sizeof agent->said[0], "%s", error_last());
}

static void say_delivered(struct agent *agent)
{
    if (agent->heard && !agent->failures)
        return;
    size_t count = watch_count(agent->watch);
    printf("%s %s: %zu process%s of host %s\n", agent->heard ? "Reporting again to" : "Reporting to",
           agent->options->sender.url, count, count == 1 ? "" : "es", agent->options->host);
    fflush(stdout);
    *agent->said[0] = *agent->said[1] = 0;
}

/* ---- Verdicts ---- */

static bool has_new(const struct verdict_list *list, const struct verdict_list *before)
{
    return list->count && (list->master != before->master || !before->count ||
                           list->news[list->count - 1].number > before->news[before->count - 1].number);
}

/* Leaves them for the host's processes. A folder that cannot be written costs nothing else. */
static void keep_verdicts(struct agent *agent, const struct verdict_list *verdicts)
{
    if (!has_new(verdicts, &agent->verdicts))
        return;
    agent->verdicts = *verdicts;
    if (verdicts_write(agent->options->dir, verdicts) != TUTTI_SUCCESS)
        complain(agent);
}

/* Nobody is told of old ones by an agent that is no more. */
static void drop_verdicts(const struct agent *agent)
{
    char path[4096];
    verdicts_path(agent->options->dir, (uint32_t)geteuid(), path, sizeof path);
    if (agent->verdicts.count)
        unlink(path);
}

/* ---- Reports ---- */

/* Posts the reports, and takes their answers. If there is `own`, it is the first of them. */
static enum delivery post_bundle(struct agent *agent, size_t count, bool own)
{
    struct bundle bundle = {.reports = agent->reports, .count = count};
    struct verdict_list verdicts;
    size_t size;
    if (agent->relay)
        relay_complaint(agent->relay, bundle.complaint);
    uint8_t *bytes = bundle_write(&bundle, &size);
    if (!bytes)
        error_note(TUTTI_SYSTEM_ERROR, "writing a bundle of reports: no memory");
    agent->cut = !bytes || !sender_post_bundle(agent->sender, bytes, size, agent->answers, count, &verdicts);
    free(bytes);
    if (agent->cut)
        return NOT_DELIVERED; /* the answer tells the others the time of the next try */
    if (agent->relay)
        relay_settle(agent->relay, agent->answers + own, &verdicts);
    keep_verdicts(agent, &verdicts);
    return own ? sender_meaning(agent->sender, agent->answers) : DELIVERED;
}

/* Sends the own report, if its time has come, with the reports of others that have come. */
static enum delivery pass_on(struct agent *agent, bool own)
{
    size_t size = 0;
    uint8_t *bytes = own ? watch_report(agent->watch, agent->whole, agent->lanes, &size) : NULL;
    if (own && !bytes)
        return NOT_DELIVERED;
    agent->reports[0] = (struct relayed){.bytes = bytes, .size = size};
    size_t count = agent->relay ? relay_collect(agent->relay, agent->reports, own) : own;
    enum delivery delivery = post_bundle(agent, count, own);
    free(bytes);
    return delivery;
}

/* False, after error_note: the report did not arrive. */
static bool report(struct agent *agent, bool own)
{
    enum delivery delivery = pass_on(agent, own);
    if (delivery == WANTS_ALL && agent->whole)
        error_note(TUTTI_REMOTE_ERROR, "%s: the master wants everything, and has got it", agent->options->sender.url);
    if (delivery == WANTS_ALL && !agent->whole) {
        agent->whole = true;
        return report(agent, own);
    }
    bool delivered = delivery == DELIVERED || delivery == WANTS_LANES;
    if (own) {
        agent->whole = !delivered; /* no master knows what this report told */
        agent->lanes = delivery == WANTS_LANES;
    }
    return delivered;
}

/* ---- The history ---- */

/* False after error_note. */
static bool open_history(struct agent *agent)
{
    const char *path = agent->options->history;
    if (!path)
        return true;
    if (!days_open(&agent->days))
        return error_note(TUTTI_SYSTEM_ERROR, "no memory"), false;
    watch_keep_days(agent->watch, &agent->days);
    return days_load(&agent->days, path) == TUTTI_SUCCESS;
}

/* A file that cannot be written costs nothing else. */
static void keep_history(struct agent *agent, bool now)
{
    if (!agent->days.rows || !days_changed(&agent->days) || (!now && clock_ns() < agent->kept + KEEP_NS))
        return;
    agent->kept = clock_ns();
    if (days_save(&agent->days, agent->options->history) == TUTTI_SUCCESS)
        days_clean(&agent->days);
    else
        complain(agent);
}

/* ---- The loop ---- */

static uint64_t pause_ns(const struct agent *agent)
{
    uint64_t part = 500 + (uint64_t)(clock_ns() / 1000 % 500); /* agents of many hosts must not come at once */
    unsigned retry = sender_retry(agent->sender),
             seconds = agent->failures > 5 ? PAUSE_MOST : 1u << (agent->failures - 1);
    if (retry)
        return retry * NS_PER_S + (part - 500) * NS_PER_MS;
    return (seconds > PAUSE_MOST ? PAUSE_MOST : seconds) * part * NS_PER_MS;
}

/* Waits for reports of other agents, and gathers them for a moment, so that many go at once. True: reports wait. */
static bool doze(struct agent *agent, uint64_t deadline)
{
    struct pollfd others = {.fd = agent->relay && !agent->cut ? relay_fd(agent->relay) : -1, .events = POLLIN};
    int left = clock_left_ms(deadline);
    if (poll(&others, 1, left < ALARM_MS ? left : ALARM_MS) <= 0)
        return false;
    poll(NULL, 0, GATHER_MS);
    return true;
}

/* Waits until the own report is due. False: only others' reports wait. */
static bool wait_until(struct agent *agent, uint64_t deadline)
{
    while (!ended && !clock_passed(deadline)) {
        bool others = doze(agent, deadline);
        if (!agent->failures && watch_is_alarmed(agent->watch))
            return true;
        if (others)
            return clock_passed(deadline);
    }
    return true;
}

/* The time of the next try. */
static uint64_t conclude(struct agent *agent, bool delivered, uint64_t next)
{
    if (delivered) {
        say_delivered(agent);
        agent->heard = true;
        agent->failures = 0;
        return next;
    }
    complain(agent);
    agent->failures += agent->failures < 16;
    next = clock_ns() + pause_ns(agent);
    if (agent->cut && agent->relay)
        relay_fail(agent->relay, error_last(), next);
    return next;
}

static void loop(struct agent *agent)
{
    bool own = true;
    uint64_t next = 0;
    while (!ended) {
        next = own ? clock_ns() + EVERY_NS : next;
        bool delivered = report(agent, own);
        if (!ended && (own || agent->cut))
            next = conclude(agent, delivered, next);
        keep_history(agent, ended);
        own = ended || wait_until(agent, next);
    }
}

static bool run_once(struct agent *agent)
{
    bool delivered = report(agent, true);
    if (delivered)
        say_delivered(agent);
    else
        complain(agent);
    return delivered;
}

/* ---- Beginning and end ---- */

static bool open_relay(struct agent *agent)
{
    char text[NET_TEXT];
    const struct agent_options *options = agent->options;
    const struct relay_options relay = {options->door, options->sender.token, options->host, watch_agent(agent->watch)};
    if (!(agent->relay = relay_open(&relay)))
        return false;
    printf("Agents report to http%s://%s\n", options->door->certificate ? "s" : "",
           net_format(&options->door->at, text));
    fflush(stdout);
    return true;
}

static bool open_all(struct agent *agent)
{
    const struct agent_options *options = agent->options;
    if (!(agent->sender = sender_open(&options->sender, &ended)))
        return false;
    size_t room = options->door ? BUNDLE_REPORTS : 1;
    agent->reports = calloc(room, sizeof *agent->reports);
    agent->answers = calloc(room, sizeof *agent->answers);
    agent->watch = watch_open(options->dir, options->host);
    if (!agent->reports || !agent->answers || !agent->watch)
        return error_note(TUTTI_SYSTEM_ERROR, "no memory"), false;
    return open_history(agent) && (!options->door || open_relay(agent));
}

bool agent_run(const struct agent_options *options)
{
    struct agent agent = {.options = options, .whole = true};
    prepare_process();
    bool fine = open_all(&agent);
    if (!fine)
        complain(&agent);
    else if (options->once)
        fine = run_once(&agent);
    else
        loop(&agent);
    keep_history(&agent, true);
    drop_verdicts(&agent);
    days_close(&agent.days);
    relay_close(agent.relay);
    watch_close(agent.watch);
    sender_close(agent.sender);
    free(agent.reports);
    free(agent.answers);
    return fine;
}
