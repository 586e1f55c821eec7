/* SPDX-License-Identifier: Apache-2.0 */
/* tutti tune --gpu: finds the sizes at which one way between GPUs becomes faster than the other, as thresholds in the
 * file of tutti tune. */
#include "cli/cli.h"
#include "cli/perf_place.h"
#include "cli/schedule.h"
#include "cli/tune.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/param.h"
#include "base/parse.h"
#include "base/tuned.h"
#include "device/cuda/numbers.h"
#include "plan/duel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FACTOR = 4, MOST_POINTS = 1024, BLOCK_ROWS = 5, SETTING = 64 };

#define K 1024ll
#define M (1024 * K)
#define G (1024 * M)

static const char *const block_counts[BLOCK_ROWS] = {"TUTTI_BLOCKS=8", "TUTTI_BLOCKS=16", "TUTTI_BLOCKS=32",
                                                     "TUTTI_BLOCKS=48", "TUTTI_BLOCKS=64"};

struct tune_gpu_job {
    const struct tune_options *options;
    struct tune_progress progress;
    struct tune_point points[MOST_POINTS]; /* of the current duel */
    int count;
    char *settings[PLAN_DUELS + 2]; /* settings found so far, and those on trial */
    char texts[PLAN_DUELS][SETTING];
    int settled;
    bool failed; /* a way of the current duel has failed */
    bool any;
    struct param_tuned found; /* the rows to be written */
};

/* One series of sizes. */
struct series {
    const char *collective;
    int ranks;
    bool together;       /* ranks are in one process, and not a process each */
    int64_t multiple;    /* bytes of the vector of a unit */
    const char *ways[2]; /* "others": by size */
    int64_t least, most;
    int count;
};

/* ---- the measurements to make ---- */

static bool wanted(const struct tune_options *options, const char *parameter)
{
    char list[512], word[80];
    if (!options->only)
        return true;
    snprintf(list, sizeof list, ",%s,", options->only);
    snprintf(word, sizeof word, ",%s,", parameter);
    return strstr(list, word) || (strncmp(parameter, "TUTTI_", 6) == 0 && wanted(options, parameter + 6));
}

static int64_t multiple(const struct plan_duel *duel, const char *collective, int ranks)
{
    bool parts = strcmp(collective, "sendrecv") != 0;
    if (duel->unit == PLAN_VECTOR || !parts)
        return 1;
    return duel->unit == PLAN_PART ? ranks : NUMBER_COLLECTIVE_TIMES * (int64_t)ranks;
}

/* Is each word of --only a parameter that is measured here? If not, `word` is the first that is none. */
static bool only_known(const struct tune_options *options, char *word, size_t room)
{
    const struct tune_options one = {.only = word};
    for (const char *next = options->only; next && *next; next += *next == ',') {
        size_t length = strcspn(next, ",");
        bool known = false;
        snprintf(word, room, "%.*s", (int)length, next);
        for (int i = 0; i < PLAN_DUELS; i++)
            known |= !plan_duel(i).untuned && wanted(&one, param_row(plan_duel(i).id)->name);
        if (!known && !wanted(&one, "TUTTI_BLOCKS"))
            return false;
        next += length;
    }
    return true;
}

/* Joins names: the name of a way that is the same at all sizes so far. */
static const char *joint(const char *name, const char *other)
{
    return !name || strcmp(name, other) == 0 ? other : "others";
}

/* The sizes at which the ways differ. False: there are none. */
static bool series_of(const struct tune_gpu_job *job, const struct plan_duel *duel, const char *collective, int ranks,
                      bool together, struct series *out)
{
    const struct plan_facts facts = schedule_facts(together ? "process" : "processes", ranks);
    const char *ways[2];
    int64_t most = (int64_t)duel->most, times = multiple(duel, collective, ranks);
    *out = (struct series){.collective = collective, .ranks = ranks, .together = together, .multiple = times};
    for (int64_t unit = (int64_t)duel->least; unit <= most && unit * times <= job->options->most; unit *= FACTOR)
        if (plan_duel_ways(duel, &facts, (uint64_t)(unit * times), ways)) {
            out->least = out->least ? out->least : unit;
            out->most = unit;
            for (int i = 0; i < 2; i++)
                out->ways[i] = joint(out->ways[i], ways[i]);
        }
    for (int64_t unit = out->least; unit && unit <= out->most; unit *= FACTOR)
        out->count++;
    return out->count > 0;
}

typedef void (*series_fn)(struct tune_gpu_job *job, const struct plan_duel *duel, const struct series *series);

/* A quick look leaves out what one process does in the same way, and the second collective. */
static void each_series(struct tune_gpu_job *job, const struct plan_duel *duel, series_fn visit)
{
    struct series series;
    bool quick = job->options->quick;
    for (int c = 0; c < (duel->collectives[1] && !quick ? 2 : 1); c++)
        for (int n = 0; n < job->options->rank_counts; n++) {
            bool seen = false;
            for (int together = 0; together < 2 && !(seen && quick); together++) {
                seen = series_of(job, duel, duel->collectives[c], job->options->ranks[n], together, &series);
                if (seen)
                    visit(job, duel, &series);
            }
        }
}

/* ---- measurements ---- */

static bool sweep(struct tune_gpu_job *job, const struct series *series, const char *setting, const char *with,
                  double us[TUNE_SIZES])
{
    char text[SETTING], other[SETTING];
    int count = job->settled;
    bool quick = job->options->quick, together = series->together;
    struct tune_run run = {.collective = series->collective,
                           .processes = together ? 1 : series->ranks,
                           .ranks = together ? series->ranks : 1,
                           .gpu = true,
                           .first = series->least * series->multiple,
                           .last = series->most * series->multiple,
                           .factor = FACTOR,
                           .iterations = quick ? 10 : 30,
                           .rows = series->count,
                           .timeout_s = quick ? 40 : 120};
    snprintf(other, sizeof other, "%s", with);
    snprintf(text, sizeof text, "%s", setting);
    if (*with)
        job->settings[count++] = other;
    job->settings[count++] = text;
    return tune_least(&run, job->settings, count, quick ? 1 : 2, us);
}

static void tell(struct tune_gpu_job *job, const char *parameter, const struct series *series, const char *way)
{
    char what[200];
    snprintf(what, sizeof what, "%s, %s, %d GPUs, %s: %s", parameter, series->collective, series->ranks,
             series->together ? "one process" : "a process each", way);
    tune_tell(&job->progress, what);
}

static void count_series(struct tune_gpu_job *job, const struct plan_duel *duel, const struct series *series)
{
    job->progress.all += 2;
}

static void measure(struct tune_gpu_job *job, const struct plan_duel *duel, const struct series *series)
{
    double us[2][TUNE_SIZES];
    char setting[SETTING], size[24];
    const char *name = param_row(duel->id)->name;
    for (int way = 0; way < 2; way++) {
        snprintf(setting, sizeof setting, "%s=%s", name, duel->values[way]);
        if (job->failed) { /* what does not work here need not be tried again */
            job->progress.done++;
            continue;
        }
        tell(job, name, series, series->ways[way]);
        job->failed = !sweep(job, series, setting, duel->with, us[way]);
    }
    if (job->failed)
        return;
    printf("    %15s  %10s us  %10s us\n", name + strlen("TUTTI_"), series->ways[0], series->ways[1]);
    int64_t unit = series->least;
    for (int k = 0; k < series->count; k++, unit *= FACTOR) {
        text_size(unit, size, sizeof size);
        printf("    %15s  %10.2f     %10.2f%s\n", size, us[0][k], us[1][k], us[1][k] < us[0][k] ? "  <" : "");
        if (job->count < MOST_POINTS)
            job->points[job->count++] = (struct tune_point){unit, {us[0][k], us[1][k]}};
    }
}

/* ---- the thresholds ---- */

/* The size from which the value in force takes the second way, or TUNE_NEVER. */
static int64_t begins_now(const struct plan_duel *duel)
{
    int64_t value = param_int(duel->id), never = 0;
    if (duel->largest)
        return value + 1;
    bool known = parse_size(duel->never ? duel->never : duel->values[0], &never);
    return known && value == never ? TUNE_NEVER : value;
}

static int64_t most_measured(const struct tune_gpu_job *job)
{
    int64_t most = 0;
    for (int i = 0; i < job->count; i++)
        most = job->points[i].unit > most ? job->points[i].unit : most;
    return most;
}

/* The parameter's value with which the second way begins at `from`. */
static void value_text(const struct tune_gpu_job *job, const struct plan_duel *duel, int64_t from, char *out,
                       size_t room)
{
    if (from == TUNE_NEVER && duel->never)
        snprintf(out, room, "%s", duel->never);
    else if (from == TUNE_NEVER)
        text_size(most_measured(job) * FACTOR, out, room);
    else
        text_size(duel->largest ? from / FACTOR : from, out, room);
}

/* Writes measured values that stay, too: another version may have another default. */
static void settle(struct tune_gpu_job *job, const struct plan_duel *duel)
{
    char value[24];
    const char *name = param_row(duel->id)->name;
    int64_t now = begins_now(duel), from = tune_cross(job->points, job->count, now);
    if (!job->failed)
        job->found.number[duel->id] = param_int(duel->id);
    if (from == now || job->failed) {
        printf("    -> %s stays %s\n", name, param_string(duel->id));
        return;
    }
    value_text(job, duel, from, value, sizeof value);
    parse_size(value, &job->found.number[duel->id]);
    snprintf(job->texts[job->settled], SETTING, "%s=%s", name, value);
    printf("    -> %s (now %s)\n", job->texts[job->settled], param_string(duel->id));
    job->settings[job->settled] = job->texts[job->settled];
    job->settled++;
}

static void each_duel(struct tune_gpu_job *job, series_fn visit,
                      void (*after)(struct tune_gpu_job *job, const struct plan_duel *duel))
{
    for (int i = 0; i < PLAN_DUELS; i++) {
        const struct plan_duel duel = plan_duel(i);
        if (duel.untuned || !wanted(job->options, param_row(duel.id)->name))
            continue;
        job->count = 0;
        job->failed = false;
        each_series(job, &duel, visit);
        if (after && job->count)
            after(job, &duel);
        job->any |= job->count > 0;
    }
}

/* ---- blocks ---- */

/* A series of large allreduces. False: there are none to be measured. */
static bool block_series(const struct tune_gpu_job *job, struct series *out)
{
    const struct tune_options *options = job->options;
    int64_t most = options->most < G ? options->most : G;
    *out = (struct series){.collective = "allreduce",
                           .ranks = options->ranks[options->rank_counts - 1],
                           .multiple = 1,
                           .least = most,
                           .most = most,
                           .count = 1};
    return wanted(options, "TUTTI_BLOCKS") && most >= 64 * K;
}

/* Gives advice and no threshold: fewer blocks leave more of the GPU to others. */
static void advise_blocks(struct tune_gpu_job *job)
{
    double us[BLOCK_ROWS][TUNE_SIZES], least = 0;
    struct series series;
    char size[24];
    int fewest = -1;
    if (!block_series(job, &series))
        return;
    for (int i = 0; i < BLOCK_ROWS; i++) {
        tell(job, "TUTTI_BLOCKS", &series, block_counts[i] + strlen("TUTTI_BLOCKS="));
        if (!sweep(job, &series, block_counts[i], "", us[i]))
            return;
        least = i && least < us[i][0] ? least : us[i][0];
    }
    text_size(series.most, size, sizeof size);
    for (int i = BLOCK_ROWS - 1; i >= 0; i--)
        fewest = us[i][0] < least * 1.03 ? i : fewest;
    for (int i = 0; i < BLOCK_ROWS; i++)
        printf("    %16s  %10.2f us for %s\n", block_counts[i], us[i][0], size);
    printf("    -> %s are the fewest blocks within 3 %% of the fastest, for an allreduce of %s\n", block_counts[fewest],
           size);
    job->any = true;
}

/* ---- output ---- */

/* Checks that an existing file has this form: its other rows will stay. False: a sentence has said why not. */
static bool can_keep(const char *path)
{
    struct tuned_slice parts[TUNED_PARTS];
    size_t length;
    char *text = tuned_read(path, &length);
    bool good = text ? length == 0 || tuned_parts(text, length, parts) : errno == ENOENT;
    free(text);
    if (!good)
        failure("tune", "%s is there and is no file of tutti tune. Correct or remove it, or name another one with -o",
                path);
    return good;
}

/* Keeps rows of the file that were not measured now, if all are right. */
static void keep_rows(const char *path, struct param_tuned *found)
{
    struct tuned_slice parts[TUNED_PARTS];
    struct param_tuned old;
    char wrong[TUNED_WRONG];
    size_t length;
    char *text = tuned_read(path, &length);
    memset(&old, 0xff, sizeof old);
    if (text && tuned_parts(text, length, parts) && tuned_rows(&parts[TUNED_GPU], param_take_tuned, &old, wrong))
        for (int id = 0; id < PARAM_COUNT; id++)
            found->number[id] = found->number[id] < 0 ? old.number[id] : found->number[id];
    free(text);
}

/* The rows as JSON, which the caller frees; NULL: no memory. */
static char *rows_text(const struct param_tuned *found, int gpus)
{
    char *text = NULL, comment[TUNE_COMMENT];
    size_t length;
    FILE *file = open_memstream(&text, &length);
    if (!file)
        return NULL;
    tune_comment("tutti tune --gpu", comment);
    snprintf(comment + strlen(comment), sizeof comment - strlen(comment), ", %d GPUs", gpus);
    fprintf(file, "{\n    \"comment\": ");
    tuned_print_text(file, comment);
    for (int id = 0; id < PARAM_COUNT; id++)
        if (found->number[id] >= 0)
            fprintf(file, ",\n    \"%s\": %lld", param_row((enum param_id)id)->name + strlen("TUTTI_"),
                    (long long)found->number[id]);
    fprintf(file, "\n  }");
    bool whole = !ferror(file);
    if (fclose(file) == 0 && whole)
        return text;
    free(text);
    return NULL;
}

static int save(struct tune_gpu_job *job, const char *path)
{
    int measured = 0;
    for (int id = 0; id < PARAM_COUNT; id++)
        measured += job->found.number[id] >= 0;
    if (!measured)
        return EXIT_OK;
    keep_rows(path, &job->found);
    char *text = rows_text(&job->found, job->options->ranks[job->options->rank_counts - 1]);
    const char *const parts[TUNED_PARTS] = {[TUNED_GPU] = text};
    tutti_result_t result = text ? tuned_write(path, parts) : error_set(TUTTI_SYSTEM_ERROR, "out of memory");
    free(text);
    if (result != TUTTI_SUCCESS)
        return failure("tune", "%s", error_last());
    printf("%d thresholds written to %s. Programs read them when they start\n", measured, path);
    return EXIT_OK;
}

/* 2, 4, 8 .. and all. */
static void default_ranks(struct tune_options *options, int gpus)
{
    for (int n = 2; n < gpus && !options->quick; n *= 2)
        options->ranks[options->rank_counts++] = n;
    options->ranks[options->rank_counts++] = gpus;
}

static int check(struct tune_options *options)
{
    char word[80];
    if (!only_known(options, word, sizeof word))
        return usage_error("tune", "--only: %s is not measured", word);
    int gpus = place_gpus();
    if (gpus < 2)
        return failure("tune", "%s", gpus ? "there is one GPU here: nothing passes between GPUs" : error_last());
    if (!options->rank_counts)
        default_ranks(options, gpus);
    if (options->ranks[options->rank_counts - 1] > gpus)
        return usage_error("tune", "-n wants numbers up to %d: there are as many GPUs", gpus);
    if (!options->most)
        options->most = options->quick ? 256 * M : G;
    return EXIT_OK;
}

int tune_gpu(struct tune_options *options)
{
    struct series series;
    int code = check(options);
    if (code != EXIT_OK)
        return code;
    if (!can_keep(options->output))
        return EXIT_FAILED;
    if (!tune_listen(options))
        return EXIT_FAILED;
    struct tune_gpu_job *job = calloc(1, sizeof *job);
    if (!job)
        return failure("tune", "out of memory");
    job->options = options;
    memset(&job->found, 0xff, sizeof job->found);
    each_duel(job, count_series, NULL);
    job->progress.all += block_series(job, &series) ? BLOCK_ROWS : 0;
    job->progress.start = clock_ns();
    each_duel(job, measure, settle);
    advise_blocks(job);
    code = job->any ? save(job, options->output) : failure("tune", "nothing could be measured");
    free(job);
    return code;
}
