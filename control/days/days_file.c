/* SPDX-License-Identifier: Apache-2.0 */
/* Rows as text: in files, and for people. */
#include "days/days.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MOST 1024
#define WEEK      7 /* days that are summed up */

void days_write_verdicts(const struct day_row *row, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "-");
    bool any = false;
    for (int kind = 0; kind < FINDING_KINDS && used < size; kind++)
        if (row->verdicts[kind]) {
            used = any ? used : 0;
            used += (size_t)snprintf(out + used, size - used, "%s%s:%" PRIu32, any ? "," : "",
                                     finding_row((enum finding_kind)kind)->name, row->verdicts[kind]);
            any = true;
        }
}

void days_write_row(FILE *out, const struct day_row *row)
{
    char verdicts[512];
    days_write_verdicts(row, verdicts, sizeof verdicts);
    fprintf(out, "%s %s lanes %" PRIu32 " pauses %" PRIu32 " slow %" PRIu32 " verdicts %s\n", row->day, row->host,
            row->lanes, row->pauses, row->slow, verdicts);
}

/* Takes "slow:2,link:1". A kind that this program does not know is left out. */
static void read_verdicts(char *text, struct day_row *row)
{
    for (char *one; (one = strsep(&text, ","));) {
        char *count = strchr(one, ':');
        if (!count)
            continue;
        *count++ = 0;
        for (int kind = 0; kind < FINDING_KINDS; kind++)
            if (strcmp(one, finding_row((enum finding_kind)kind)->name) == 0)
                row->verdicts[kind] = (uint32_t)strtoul(count, NULL, 10);
    }
}

bool days_read_row(const char *line, struct day_row *row)
{
    char verdicts[512] = "";
    *row = (struct day_row){0};
    if (sscanf(line, "%10s %63s lanes %" SCNu32 " pauses %" SCNu32 " slow %" SCNu32 " verdicts %511s", row->day,
               row->host, &row->lanes, &row->pauses, &row->slow, verdicts) != 6)
        return false;
    read_verdicts(verdicts, row);
    return true;
}

tutti_result_t days_load(struct days *days, const char *path)
{
    char line[LINE_MOST];
    struct day_row row;
    bool sound = true;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* it may be a pipe that nobody writes to */
    FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
    if (!in && errno == ENOENT)
        return TUTTI_SUCCESS;
    if (!in)
        return error_note(TUTTI_SYSTEM_ERROR, "opening the history %s: %m", path);
    for (size_t i = 0; sound && i < 2 * DAYS_MOST && fgets(line, sizeof line, in); i++)
        sound = days_read_row(line, &row) && days_add(days, &row);
    bool failed = ferror(in);
    fclose(in);
    days_clean(days);
    if (failed)
        return error_note(TUTTI_SYSTEM_ERROR, "reading the history %s failed", path);
    if (!sound)
        return error_note(TUTTI_INVALID_USAGE, "%s is no history of hosts: a line is none of an agent's", path);
    return TUTTI_SUCCESS;
}

tutti_result_t days_save(const struct days *days, const char *path)
{
    char name[4096];
    if ((size_t)snprintf(name, sizeof name, "%s.new", path) >= sizeof name)
        return error_note(TUTTI_INVALID_USAGE, "the name of the history is too long");
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!out)
        return error_note(TUTTI_SYSTEM_ERROR, "writing the history %s: %m", name);
    for (size_t i = 0; i < days->count; i++)
        days_write_row(out, &days->rows[i]);
    bool fine = !ferror(out);
    fine = fclose(out) == 0 && fine && rename(name, path) == 0;
    return fine ? TUTTI_SUCCESS : error_note(TUTTI_SYSTEM_ERROR, "writing the history %s: %m", path);
}

/* ---- For people ---- */

struct host_sum {
    const char *host;
    struct day_row row; /* of the last week */
    uint32_t verdicts, days;
};

static int by_verdicts(const void *left, const void *right)
{
    const struct host_sum *a = left, *b = right;
    if (a->verdicts != b->verdicts)
        return a->verdicts > b->verdicts ? -1 : 1;
    if (a->row.slow != b->row.slow)
        return a->row.slow > b->row.slow ? -1 : 1;
    return strcmp(a->host, b->host);
}

static uint32_t all_verdicts(const struct day_row *row)
{
    uint32_t count = 0;
    for (int kind = 0; kind < FINDING_KINDS; kind++)
        count += row->verdicts[kind];
    return count;
}

static void sum_up(struct host_sum *sums, size_t *count, const struct day_row *row)
{
    size_t at = 0;
    while (at < *count && strcmp(sums[at].host, row->host) != 0)
        at++;
    if (at == *count)
        sums[(*count)++] = (struct host_sum){.host = row->host};
    sums[at].verdicts += all_verdicts(row);
    sums[at].days += all_verdicts(row) > 0;
    sums[at].row.lanes += row->lanes;
    sums[at].row.pauses += row->pauses;
    sums[at].row.slow += row->slow;
    for (int kind = 0; kind < FINDING_KINDS; kind++)
        sums[at].row.verdicts[kind] += row->verdicts[kind];
}

/* The first row of the last seven days that there are. */
static size_t last_week(const struct days *days)
{
    size_t at = days->count;
    for (int left = WEEK; at > 0; at--)
        if ((at == days->count || strcmp(days->rows[at - 1].day, days->rows[at].day) != 0) && left-- == 0)
            break;
    return at;
}

void days_print(const struct days *days, FILE *out)
{
    char verdicts[512];
    size_t count = 0;
    struct host_sum *sums = calloc(days->count + 1, sizeof *sums);
    for (size_t i = last_week(days); sums && i < days->count; i++)
        sum_up(sums, &count, &days->rows[i]);
    if (count)
        qsort(sums, count, sizeof *sums, by_verdicts);
    fprintf(out, "%-24s %10s %8s %8s  %s\n", "HOST, LAST 7 DAYS", "LANES DOWN", "PAUSES", "SLOW MIN", "VERDICTS");
    for (size_t i = 0; i < count; i++) {
        days_write_verdicts(&sums[i].row, verdicts, sizeof verdicts);
        fprintf(out, "%-24s %10" PRIu32 " %8" PRIu32 " %8" PRIu32 "  %s", sums[i].host, sums[i].row.lanes,
                sums[i].row.pauses, sums[i].row.slow, verdicts);
        fprintf(out, sums[i].verdicts ? ", on %" PRIu32 " of these days\n" : "\n", sums[i].days);
    }
    fprintf(out, "\n%-12s %-24s %10s %8s %8s  %s\n", "DAY", "HOST", "LANES DOWN", "PAUSES", "SLOW MIN", "VERDICTS");
    for (size_t i = days->count; i-- > 0;) {
        const struct day_row *row = &days->rows[i];
        days_write_verdicts(row, verdicts, sizeof verdicts);
        fprintf(out, "%-12s %-24s %10" PRIu32 " %8" PRIu32 " %8" PRIu32 "  %s\n", row->day, row->host, row->lanes,
                row->pauses, row->slow, verdicts);
    }
    free(sums);
}
