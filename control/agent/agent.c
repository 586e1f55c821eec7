/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's loop: a report a second, at once on an alarm, and rarely where no master takes one. */
#include "agent/agent.h"

#include "base/clock.h"
#include "base/error.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define EVERY_NS   NS_PER_S
#define ALARM_MS   100 /* from one look for alarms to the next */
#define PAUSE_MOST 30  /* seconds between two tries */
#define NICE       10

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
    setpriority(PRIO_PROCESS, 0, NICE); /* the job goes first */
}

struct agent {
    const struct agent_options *options;
    struct watch *watch;
    struct sender *sender;
    bool whole; /* the master knows nothing, or not what */
    bool heard, failing;
    unsigned failures; /* in a row */
    char said[300];    /* the latest complaint, which is not said again */
};

static void complain(struct agent *agent)
{
    if (strncmp(agent->said, error_last(), sizeof agent->said - 1) != 0)
        fprintf(stderr, "tutti agent: %s\n", error_last());
    snprintf(agent->said, sizeof agent->said, "%s", error_last());
}

static void say_delivered(struct agent *agent)
{
    if (agent->heard && !agent->failures)
        return;
    size_t count = watch_count(agent->watch);
    printf("%s %s: %zu process%s of host %s\n", agent->heard ? "Reporting again to" : "Reporting to", agent->options->sender.url, count,
           count == 1 ? "" : "es", agent->options->host);
    fflush(stdout);
    *agent->said = 0;
}

/* False, after error_note: it did not arrive. */
static bool report(struct agent *agent)
{
    size_t size;
    uint8_t *bytes = watch_report(agent->watch, agent->whole, &size);
    enum delivery delivery = bytes ? sender_post(agent->sender, bytes, size) : NOT_DELIVERED;
    free(bytes);
    if (delivery == WANTS_ALL && agent->whole)
        error_note(TUTTI_REMOTE_ERROR, "%s: the master wants everything, and has got it", agent->options->sender.url);
    if (delivery == WANTS_ALL && !agent->whole) {
        agent->whole = true;
        return report(agent);
    }
    agent->whole = delivery != DELIVERED; /* what was told with it, no master knows */
    return delivery == DELIVERED;
}

static uint64_t pause_ns(const struct agent *agent)
{
    unsigned seconds = agent->failures > 5 ? PAUSE_MOST : 1u << (agent->failures - 1);
    uint64_t part = 500 + (uint64_t)(clock_ns() / 1000 % 500); /* agents of many hosts shall not come at once */
    return (seconds > PAUSE_MOST ? PAUSE_MOST : seconds) * part * NS_PER_MS;
}

static void wait_until(struct agent *agent, uint64_t deadline)
{
    while (!ended && !clock_passed(deadline)) {
        int left = clock_left_ms(deadline);
        poll(NULL, 0, left < ALARM_MS ? left : ALARM_MS);
        if (!agent->failures && watch_is_alarmed(agent->watch))
            return;
    }
}

static void loop(struct agent *agent)
{
    while (!ended) {
        uint64_t begun = clock_ns();
        bool delivered = report(agent);
        if (ended)
            return;
        if (delivered) {
            say_delivered(agent);
            agent->heard = true;
            agent->failures = 0;
        } else {
            complain(agent);
            agent->failures += agent->failures < 16;
        }
        wait_until(agent, begun + (delivered ? EVERY_NS : pause_ns(agent)));
    }
}

static bool run(struct agent *agent)
{
    if (!agent->options->once) {
        loop(agent);
        return true;
    }
    bool delivered = report(agent);
    if (delivered)
        say_delivered(agent);
    else
        complain(agent);
    return delivered;
}

bool agent_run(const struct agent_options *options)
{
    struct agent agent = {.options = options, .whole = true};
    prepare_process();
    agent.sender = sender_open(&options->sender, &ended);
    agent.watch = agent.sender ? watch_open(options->dir, options->host) : NULL;
    if (agent.sender && !agent.watch)
        error_note(TUTTI_SYSTEM_ERROR, "no memory");
    bool fine = agent.watch && run(&agent);
    if (!agent.watch)
        complain(&agent);
    watch_close(agent.watch);
    sender_close(agent.sender);
    return fine;
}
