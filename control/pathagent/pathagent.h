/* SPDX-License-Identifier: Apache-2.0 */
/* The path agent of a host: processes ask it at a Unix socket, and it asks the path master for all of them. */
#ifndef TUTTI_PATHAGENT_PATHAGENT_H
#define TUTTI_PATHAGENT_PATHAGENT_H

#include "agent/agent.h"
#include "pathagent/prober.h"

struct pathagent_options {
    struct sender_options sender;
    const char *socket;
    bool probes;
    struct prober_options prober;
};

#define PATHAGENT_LINK 64

/* Tells the master, as an operator, what an uplink has of its rate; NULL: that it is to look for faults. False after
 * error_note. */
bool pathagent_tell(const struct pathagent_options *options, const char *uplink, unsigned percent);

/* Runs until SIGINT or SIGTERM. Says on standard output and error what changes. False: it cannot begin. */
bool pathagent_run(const struct pathagent_options *options);

#endif
