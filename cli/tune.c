/* SPDX-License-Identifier: Apache-2.0 */
/* tutti tune: runs every algorithm that takes the shape, for each transport, number of ranks, collective and size. */
#include "cli/tune.h"
#include "cli/cli.h"
#include "cli/noise.h"

#include "algorithm/algorithm.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/tuned.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_RULES = 4096 };

/* Below a page a system call cannot gain. */
#define CMA_LEAST 4096
#define CMA_GAIN  1.05

struct rules {
    struct choice_rule *list;
    int count;
};

/* ---- measurements ---- */

static void perf_name(enum coll coll, char *out, size_t size)
{
    snprintf(out, size, "%s", schedule_coll_name(coll));
    for (char *joint; (joint = strchr(out, '-'));)
        *joint = '_';
}

static int candidates(struct tune_case *c)
{
    const struct algorithm *row;
    struct shape shape = {.coll = c->coll, .nranks = c->ranks};
    c->count = 0;
    for (int i = 0; (row = algorithm_row(i)) && c->count < 16; i++)
        if (schedule_fits(row, &shape) && !(row->flags & ALGORITHM_GPU)) /* host memory is measured here */
            c->algorithms[c->count++] = row;
    return c->count;
}

static void tell(struct tune_progress *progress, const struct tune_case *c, const char *algorithm)
{
    char what[200];
    snprintf(what, sizeof what, "%s, %d ranks, %s: %s", tune_transports[c->transport], c->ranks,
             schedule_coll_name(c->coll), algorithm);
    tune_tell(progress, what);
}

static struct noise_pairs pairs;

static void tell_of_pairs(void)
{
    if (noise_is_between(&pairs))
        failure("tune",
                "%d of %d times differ by half or more from their second measurement: the machine was busy meanwhile, "
                "and the table may fit that alone. Measure again when nothing else runs",
                pairs.apart, pairs.all);
}

/* Takes the least of two sweeps, because noise only adds. No times at all if one fails. */
static void measure_one(const struct tune_options *options, const char *collective, int ranks, char *const settings[2],
                        double us[TUNE_SIZES])
{
    double again[TUNE_SIZES];
    bool good = tune_sweep(options, collective, ranks, settings, 2, us);
    if (good && !options->quick) {
        good = tune_sweep(options, collective, ranks, settings, 2, again);
        for (int k = 0; good && k < TUNE_SIZES; k++) {
            noise_pair(&pairs, us[k], again[k]);
            us[k] = again[k] < us[k] ? again[k] : us[k];
        }
    }
    if (!good)
        memset(us, 0, TUNE_SIZES * sizeof *us);
}

static void measure(const struct tune_options *options, struct tune_case *c, struct tune_progress *progress)
{
    char collective[32], algorithm[96], transport[32];
    perf_name(c->coll, collective, sizeof collective);
    snprintf(transport, sizeof transport, "TUTTI_TRANSPORT=%s", tune_transports[c->transport]);
    for (int a = 0; a < c->count; a++) {
        tell(progress, c, c->algorithms[a]->name);
        snprintf(algorithm, sizeof algorithm, "TUTTI_ALGO=%s:%s", schedule_coll_name(c->coll), c->algorithms[a]->name);
        measure_one(options, collective, c->ranks, (char *[]){algorithm, transport}, c->us[a]);
    }
}

typedef void (*case_fn)(const struct tune_options *options, struct tune_case *c, void *context);

/* Leaves out the barrier, which has no size and nothing that perf measures: its built-in choice stays. */
static void each_case(const struct tune_options *options, case_fn visit, void *context)
{
    static struct tune_case c;
    for (int transport = 0; transport < CHOICE_CLASS_COUNT; transport++)
        for (int n = 0; options->transports[transport] && n < options->rank_counts; n++)
            for (int coll = 0; coll < COLL_BARRIER; coll++) {
                c.coll = (enum coll)coll;
                c.transport = (enum choice_class)transport;
                c.ranks = options->ranks[n];
                c.min_ranks = n ? c.ranks : 2;
                c.max_ranks = n + 1 < options->rank_counts ? options->ranks[n + 1] - 1 : INT_MAX;
                candidates(&c);
                visit(options, &c, context);
            }
}

struct tune_job {
    struct tune_progress progress;
    struct rules rules;
    bool out_of_room;
};

static void count_case(const struct tune_options *options, struct tune_case *c, void *context)
{
    ((struct tune_job *)context)->progress.all += c->count;
}

static void do_case(const struct tune_options *options, struct tune_case *c, void *context)
{
    struct tune_job *job = context;
    int64_t sizes[TUNE_SIZES];
    int count = tune_sizes(options, sizes);
    measure(options, c, &job->progress);
    if (job->rules.count + TUNE_SIZES > MOST_RULES)
        job->out_of_room = true;
    else
        job->rules.count += tune_rules(c, sizes, count, job->rules.list + job->rules.count);
}

/* The smallest size from which on cross-memory attach is always faster, by more than noise. */
static void advise_cma(const struct tune_options *options)
{
    char shm[] = "TUTTI_TRANSPORT=shm", never[] = "TUTTI_SHM_CMA_MIN=1T", always[] = "TUTTI_SHM_CMA_MIN=1";
    double ring[TUNE_SIZES], cma[TUNE_SIZES];
    int64_t sizes[TUNE_SIZES];
    int count = tune_sizes(options, sizes), from = count;
    printf("Messages between two processes: shared ring or cross-memory attach\n");
    if (!tune_sweep(options, "sendrecv", 2, (char *[]){never, shm}, 2, ring) ||
        !tune_sweep(options, "sendrecv", 2, (char *[]){always, shm}, 2, cma))
        return;
    while (from > 0 && sizes[from - 1] >= CMA_LEAST && cma[from - 1] > 0 && cma[from - 1] * CMA_GAIN < ring[from - 1])
        from--;
    for (int k = 0; k < count; k++)
        printf("    %10lld bytes: ring %10.2f us, attach %10.2f us\n", (long long)sizes[k], ring[k], cma[k]);
    if (from < count)
        printf("    -> export TUTTI_SHM_CMA_MIN=%lld\n", (long long)sizes[from]);
    else
        printf("    -> the ring is faster here: leave TUTTI_SHM_CMA_MIN at its default\n");
}

/* ---- the table ---- */

static bool make_folders(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = folder + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        if (mkdir(folder, 0755) != 0 && errno != EEXIST)
            return false;
        *slash = '/';
    }
    return true;
}

/* Checks that the output can be made: an existing one is not touched, and a new one is taken away. */
static bool can_write(const char *path)
{
    if (!make_folders(path))
        return false;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd >= 0)
        unlink(path);
    else if (errno == EEXIST)
        fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static int save(const char *path, const struct rules *rules)
{
    char comment[TUNE_COMMENT];
    tune_comment("tutti tune", comment);
    if (choice_save(path, comment, rules->list, rules->count) != TUTTI_SUCCESS)
        return failure("tune", "%s", error_last());
    printf("%d rules written to %s\n", rules->count, path);
    return EXIT_OK;
}

int cmd_tune(int argc, char **argv)
{
    struct tune_options options;
    char path[PATH_MAX];
    int code = tune_parse(argc, argv, &options);
    if (code >= 0)
        return code;
    if (!options.output) {
        if (!tuned_default_path(path, sizeof path))
            return usage_error("tune", "HOME is not set: give -o FILE");
        options.output = path;
    }
    if (!can_write(options.output))
        return failure("tune", "cannot write %s, so nothing is measured: %s", options.output, strerror(errno));
    if (options.gpu)
        return tune_gpu(&options);
    if (!tune_listen(&options))
        return EXIT_FAILED;
    struct tune_job job = {.rules.list = calloc(MOST_RULES, sizeof *job.rules.list)};
    if (!job.rules.list)
        return failure("tune", "out of memory");
    each_case(&options, count_case, &job);
    job.progress.start = clock_ns();
    each_case(&options, do_case, &job);
    if (options.transports[CHOICE_SHM])
        advise_cma(&options);
    tell_of_pairs();
    if (job.out_of_room)
        failure("tune", "more than %d rules: those of the last cases are left out; give fewer numbers of ranks",
                MOST_RULES);
    code = job.rules.count ? save(options.output, &job.rules)
                           : failure("tune", "nothing could be measured: no table is written");
    free(job.rules.list);
    return code;
}
