/* SPDX-License-Identifier: Apache-2.0 */
/* The software RDMA device under a test's command, and lanes over it. */
#ifndef TUTTI_TESTS_SOFT_H
#define TUTTI_TESTS_SOFT_H

#include "owner.h"

/* Is it the transport over RDMA verbs that is under test, and on the software device? */
bool soft_here(void);
/* Runs a command of `softverbs ctl`, which must succeed; what it says is in soft_answer. */
void soft_command(const char *text);
extern char soft_answer[16384];
/* Ports that are used, and the device of the first. */
int soft_ports(char first[32]);

/* Sets a parameter; NULL: takes it back. */
void soft_set(const char *name, const char *value);

/* Entries of a folder such as /proc/self/fd. */
int soft_entries(const char *folder);
static inline int soft_fds(void)
{
    return soft_entries("/proc/self/fd");
}

/* Lane `index` of the pair, and its other end. */
struct both {
    struct end *at, *bt;
};
struct both soft_open(struct pair *pair, uint16_t index);
void soft_carries(struct pair *pair, const struct both *lane);
/* Tries, as a link does, until the lane is up at both ends. */
struct both soft_open_at_last(struct pair *pair, uint16_t index);
/* Waits until either end has gone down, and forgets both. */
void soft_drop(struct pair *pair, struct both *both);

/* As pair_until(), asleep while nothing happens: a device takes its time. */
#define soft_until(pair, condition)                                                                                    \
    do {                                                                                                               \
        uint64_t soft_deadline = clock_deadline_ms(CONFORMANCE_PATIENCE_MS);                                           \
        while (!(condition)) {                                                                                         \
            party_sleep(&(pair)->a, 1);                                                                                \
            party_sleep(&(pair)->b, 1);                                                                                \
            if (clock_passed(soft_deadline))                                                                           \
                fail_msg("waited in vain for: %s", #condition);                                                        \
        }                                                                                                              \
    } while (0)

/* What this process holds: descriptors (but for the sockets that the software device keeps for each source port),
 * threads, mappings, and queue pairs and regions of the device. */
struct soft_holdings {
    int fds, threads, mappings, pairs, regions;
};
struct soft_holdings soft_holdings(void);

#endif
