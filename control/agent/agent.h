/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent of a host: looks at its black boxes once a second, and tells the master of the job what has changed. Processes are not
 * asked and not disturbed. Nothing is kept for a master that is away: the next one hears how things are then.
 */
#ifndef TUTTI_AGENT_AGENT_H
#define TUTTI_AGENT_AGENT_H

#include "report/report.h"
#include "report/token.h"

/* ---- watch.c: the black boxes in a folder ---- */

struct watch;

/* `host`: how this one is called in reports. NULL: no memory. */
struct watch *watch_open(const char *dir, const char *host);
void watch_close(struct watch *watch);
/* Looks, and says in bytes what has changed since the last report; `whole`: everything. The caller's; NULL after error_note. */
uint8_t *watch_report(struct watch *watch, bool whole, size_t *size);
/* Has a process died, or lost a peer or a communicator, since the last report? Costs two system calls a process. */
bool watch_is_alarmed(struct watch *watch);
/* Processes in the last report. */
size_t watch_count(const struct watch *watch);

/* ---- send.c: the way to the master ---- */

struct sender;

struct sender_options {
    const char *url, *ca; /* ca: certificates to trust, NULL: the system's */
    const struct token *token;
    bool plain; /* HTTP also where others may listen */
};

enum delivery { DELIVERED, WANTS_ALL, NOT_DELIVERED };

/* *stop: becomes true when a delivery is to be broken off. NULL after error_note. */
struct sender *sender_open(const struct sender_options *options, const volatile bool *stop);
void sender_close(struct sender *sender);
/* NOT_DELIVERED after error_note. Takes some seconds at most. */
enum delivery sender_post(struct sender *sender, const uint8_t *bytes, size_t size);

/* ---- agent.c ---- */

struct agent_options {
    struct sender_options sender;
    const char *dir, *host;
    bool once; /* one report */
};

/* Until SIGINT or SIGTERM. Says on standard output and error what changes. False: it cannot begin, or --once failed. */
bool agent_run(const struct agent_options *options);

#endif
