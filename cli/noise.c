/* SPDX-License-Identifier: Apache-2.0 */
/* The load of this machine: what others use while we sleep, and how even the times of equal work are. */
#include "cli/noise.h"

#include "base/affinity.h"
#include "base/clock.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLEEP_MS = 500, SAMPLES = 400, SAMPLE_US = 1000, TEXT = 1 << 17 };

/* Limits: processors' worth of other work beyond those that no rank needs, and how much longer 1 of 10 pieces may
 * take. */
#define USED_MOST   0.25
#define STOLEN_MOST 0.05
#define LATE_MOST   1.5

/* Undisturbed measurements of one thing differ by less than this, but for a few. */
#define APART       1.5
#define APART_SHARE 0.1

struct noise_ticks noise_ticks(const char *text, const cpu_set_t *set)
{
    struct noise_ticks sum = {0};
    while (text && *text) {
        unsigned cpu;
        uint64_t t[8] = {0}; /* user nice system idle iowait irq softirq steal */
        if (sscanf(text,
                   "cpu%u %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
                   &cpu, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) >= 5 &&
            text[3] != ' ' && cpu < CPU_SETSIZE && CPU_ISSET(cpu, set)) {
            uint64_t used = t[0] + t[1] + t[2] + t[5] + t[6];
            sum.all += used + t[3] + t[4] + t[7];
            sum.used += used;
            sum.stolen += t[7];
        }
        text = strchr(text, '\n');
        text += text != NULL;
    }
    return sum;
}

static struct noise_ticks read_ticks(const cpu_set_t *set)
{
    struct noise_ticks ticks = {0};
    char *text = calloc(1, TEXT);
    int fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);
    ssize_t got = 0;
    for (size_t used = 0; text && fd >= 0 && used < TEXT - 1; used += (size_t)got)
        if ((got = read(fd, text + used, TEXT - 1 - used)) <= 0)
            break;
    if (text)
        ticks = noise_ticks(text, set);
    if (fd >= 0)
        close(fd);
    free(text);
    return ticks;
}

/* ---- Work that is always the same ---- */

static void work(long turns)
{
    for (volatile long i = 0; i < turns; i++)
        ;
}

/* The number of turns that take about `us`: the fastest of some tries. */
static long turns_of(int us)
{
    enum { TRY = 100000 };
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 20; i++) {
        uint64_t begin = clock_ns();
        work(TRY);
        uint64_t took = clock_ns() - begin;
        least = took < least ? took : least;
    }
    return (long)((double)TRY * us * 1000 / (double)(least ? least : 1));
}

static int by_time(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static void sample(struct noise *noise)
{
    uint64_t took[SAMPLES];
    long turns = turns_of(SAMPLE_US);
    for (int i = 0; i < SAMPLES; i++) {
        uint64_t begin = clock_ns();
        work(turns);
        took[i] = clock_ns() - begin;
    }
    qsort(took, SAMPLES, sizeof *took, by_time);
    noise->median_us = (double)took[SAMPLES / 2] / 1000;
    noise->late_us = (double)took[SAMPLES * 9 / 10] / 1000;
}

struct noise noise_look(void)
{
    cpu_set_t set;
    struct noise noise = {.processors = affinity_count(&set)};
    struct noise_ticks before = read_ticks(&set);
    poll(NULL, 0, SLEEP_MS);
    struct noise_ticks after = read_ticks(&set);
    double all = (double)(after.all - before.all), each = all > 0 ? noise.processors / all : 0;
    noise.used = (double)(after.used - before.used) * each;
    noise.stolen = (double)(after.stolen - before.stolen) * each;
    sample(&noise);
    return noise;
}

bool noise_is_loud(const struct noise *noise, int ranks, char *out, size_t room)
{
    int idle = noise->processors > ranks ? noise->processors - ranks : 0; /* others may run there */
    snprintf(out, room,
             "other processes use %.2f of the %d processors, other machines of the host %.2f; work that is always the "
             "same takes %.0f us, but 1 time of 10 more than %.0f us",
             noise->used, noise->processors, noise->stolen, noise->median_us, noise->late_us);
    return noise->used > USED_MOST + idle || noise->stolen > STOLEN_MOST * noise->processors ||
           noise->late_us > LATE_MOST * noise->median_us;
}

void noise_pair(struct noise_pairs *pairs, double one, double other)
{
    pairs->all += one > 0 && other > 0;
    pairs->apart += one > 0 && other > 0 && (one > APART * other || other > APART * one);
}

bool noise_is_between(const struct noise_pairs *pairs)
{
    return pairs->apart > APART_SHARE * pairs->all;
}
