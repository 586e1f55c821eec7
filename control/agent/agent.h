/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent of a host looks at its black boxes once a second, and tells the master of the job what has changed.
 * Processes are not asked and not disturbed. Nothing is kept for a master that is away: the next one hears how things
 * are then.
 */
#ifndef TUTTI_AGENT_AGENT_H
#define TUTTI_AGENT_AGENT_H

#include "report/bundle.h"
#include "report/token.h"
#include "serve/serve.h"

/* ---- watch.c: the black boxes in a folder ---- */

struct agent_watch;
struct days;

/* `host`: the name of this host in reports. NULL: no memory. */
struct agent_watch *watch_open(const char *dir, const char *host);
void watch_close(struct agent_watch *watch);
/* Looks, and returns in bytes what has changed since the last report. `whole`: everything; `lanes`: what lanes did,
 * too. The caller frees the bytes; NULL after error_note. */
uint8_t *watch_report(struct agent_watch *watch, bool whole, bool lanes, size_t *size);
/* Has a process died, or lost a peer or a communicator, since the last report? Costs two system calls a process. */
bool watch_is_alarmed(struct agent_watch *watch);
/* Each look is noted there from now on. */
void watch_keep_days(struct agent_watch *watch, struct days *days);
/* Processes in the last report. */
size_t watch_count(const struct agent_watch *watch);

/* A number that was drawn when the watch was opened. */
uint64_t watch_agent(const struct agent_watch *watch);

/* ---- send.c: the way to the master, or to an agent that passes reports on ---- */

struct sender;

struct sender_options {
    const char *url, *ca;          /* ca: trusted certificates; NULL: the system's */
    const char *certificate, *key; /* files of the agent's own certificate; NULL: it shows none */
    const struct token *token;
    bool plain;   /* HTTP is allowed also where others may listen */
    long wait_ms; /* for an answer; 0: 10 s */
};

/* WANTS_LANES: the report was delivered, and somebody looks at lanes. */
enum delivery { DELIVERED, WANTS_LANES, WANTS_ALL, NOT_DELIVERED };

/* *stop becomes true when a delivery must be broken off. NULL after error_note. */
struct sender *sender_open(const struct sender_options *options, const volatile bool *stop);
void sender_close(struct sender *sender);
/* Posts a bundle of `count` reports, and takes an answer for each, and verdicts. Takes some seconds at most. False
 * after error_note: what arrived is unknown. */
bool sender_post_bundle(struct sender *sender, const uint8_t *bytes, size_t size, struct bundle_answer *answers,
                        size_t count, struct verdict_list *verdicts);
/* Posts to another page. The answer stays until the next post. False after error_note: no answer, or a refusal. */
bool sender_ask(struct sender *sender, const char *page, const uint8_t *bytes, size_t size, const uint8_t **answer,
                size_t *answered);
/* The meaning of one of these answers; NOT_DELIVERED after error_note. */
enum delivery sender_meaning(const struct sender *sender, const struct bundle_answer *answer);
/* Seconds after which to try again, as the answer to the latest failure said; 0: it did not say. */
unsigned sender_retry(const struct sender *sender);

/* ---- relay.c: the reports of other agents ---- */

/*
 * Takes reports, and keeps their senders waiting until the agent has passed the reports on: the answer comes from the
 * master. Nothing is kept for later. relay_... functions are for the agent's thread.
 */
struct relay;

struct relay_options {
    struct serve_door *door;
    const struct token *token;
    const char *host; /* this agent's name */
    uint64_t agent;   /* this agent's number */
};

/* NULL after error_note. The caller keeps the options' texts until the end. */
struct relay *relay_open(const struct relay_options *options);
/* All senders that wait are told to come again. */
void relay_close(struct relay *relay);
/* A descriptor that is readable while there is something to pass on. */
int relay_fd(const struct relay *relay);
/* Adds reports that wait to reports[0..count), while there is room for BUNDLE_REPORTS. Returns how many there are then.
 * The bytes stay until relay_settle or relay_fail, one of which must follow. */
size_t relay_collect(struct relay *relay, struct relayed *reports, size_t count);
/* Answers what was collected, in the same order, and passes verdicts on. */
void relay_settle(struct relay *relay, const struct bundle_answer *answers, const struct verdict_list *verdicts);
/* The master cannot be reached: answers by this sentence what was collected, and until `until` everything that
 * comes. */
void relay_fail(struct relay *relay, const char *sentence, uint64_t until);
/* The latest refusal, for the master. */
void relay_complaint(struct relay *relay, char out[BUNDLE_SENTENCE]);

/* ---- agent.c ---- */

struct agent_options {
    struct sender_options sender;
    const char *dir, *host;
    struct serve_door *door; /* where other agents report to; NULL: nowhere */
    const char *history;     /* file of what this host went through, by day; NULL: none */
    bool once;               /* sends one report, and ends */
};

/* Runs until SIGINT or SIGTERM. Says on standard output and error what changes. False: it cannot begin, or --once
 * failed. */
bool agent_run(const struct agent_options *options);

#endif
