/* SPDX-License-Identifier: Apache-2.0 */
/* What else runs on this machine, before something is measured that must be alone. */
#ifndef TUTTI_CLI_NOISE_H
#define TUTTI_CLI_NOISE_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ticks of the clock that the processors of a set have spent, by /proc/stat. */
struct noise_ticks {
    uint64_t all, used, stolen; /* used: by whatever process; stolen: by other machines of the same host */
};

struct noise {
    int processors;            /* that this process may use */
    double used, stolen;       /* of these, in processors, while this process slept */
    double median_us, late_us; /* time of a piece of work that is always the same: median, and what 1 of 10 exceeds */
};

/* Reads `text`, which is that of /proc/stat. */
struct noise_ticks noise_ticks(const char *text, const cpu_set_t *set);

/* Looks for about a second. */
struct noise noise_look(void);

/* Is a measurement by `ranks` processes in vain? What was found is put into `out` as one sentence. */
bool noise_is_loud(const struct noise *noise, int ranks, char *out, size_t room);

/* Times that were taken twice, and those of which one was half as long again as the other. */
struct noise_pairs {
    int all, apart;
};

void noise_pair(struct noise_pairs *pairs, double one, double other);
/* More of them than where nothing disturbs. */
bool noise_is_between(const struct noise_pairs *pairs);

#endif
