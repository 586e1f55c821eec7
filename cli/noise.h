/* SPDX-License-Identifier: Apache-2.0 */
/* The other load of this machine, before a measurement that must be alone. */
#ifndef TUTTI_CLI_NOISE_H
#define TUTTI_CLI_NOISE_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ticks of the clock that the processors of a set have spent, by /proc/stat. */
struct noise_ticks {
    uint64_t all, used, stolen; /* used: by any process; stolen: by other machines of the same host */
};

struct noise {
    int processors;            /* processors that this process may use */
    double used, stolen;       /* of these, used by others while this process slept */
    double median_us, late_us; /* time of equal pieces of work: the median, and what 1 of 10 exceeds */
};

/* Reads `text`, which has the form of /proc/stat. */
struct noise_ticks noise_ticks(const char *text, const cpu_set_t *set);

/* Looks for about a second. */
struct noise noise_look(void);

/* Is a measurement by `ranks` processes in vain? One sentence in `out` says what was found. */
bool noise_is_loud(const struct noise *noise, int ranks, char *out, size_t room);

/* Times that were taken twice, and the number of pairs of which one was 1.5 times the other. */
struct noise_pairs {
    int all, apart;
};

void noise_pair(struct noise_pairs *pairs, double one, double other);
/* Are there more of them than on a quiet machine? */
bool noise_is_between(const struct noise_pairs *pairs);

#endif
