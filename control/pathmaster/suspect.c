/* SPDX-License-Identifier: Apache-2.0 */
#include "pathmaster/suspect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NOISE      1e-4 /* of packets: what a network without faults may lose */
#define LEAST_GAIN 14.0 /* of the logarithm of likelihood: 1 of a million looks blames by chance */
#define CLEAR      7.0  /* by which the best explanation is ahead of others */
#define FITS       3
#define ROUNDS     256 /* parts that are blamed at a time */
#define DEAD       0.5
#define TRAINS     6 /* that tell a part's rate; of one path, all that are looked at */

static const double losses[] = {0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95, 0.999};
#define LOSSES (sizeof losses / sizeof *losses)

struct blaming {
    const struct suspect_path *path;
    int paths;
    int32_t parts;
    int32_t *first, *on; /* on[first[part]] and what follows: paths over the part */
    double *pass;        /* of each path: what gets through, as it is explained by now */
    double *gain, *loss; /* of each part: the best explanation by it */
    double *has;         /* of those that are taken */
    bool *taken;
    struct suspect *out;
    int count, room;
};

/* ---- which paths go over a part ---- */

static bool make_index(struct blaming *f)
{
    f->first = calloc((size_t)f->parts + 2, sizeof *f->first);
    f->on = calloc((size_t)f->paths * SUSPECT_PARTS + 1, sizeof *f->on);
    f->pass = calloc((size_t)f->paths + 1, sizeof *f->pass);
    f->gain = calloc((size_t)f->parts + 1, sizeof *f->gain);
    f->loss = calloc((size_t)f->parts + 1, sizeof *f->loss);
    f->has = calloc((size_t)f->parts + 1, sizeof *f->has);
    f->taken = calloc((size_t)f->parts + 1, sizeof *f->taken);
    if (!f->first || !f->on || !f->pass || !f->gain || !f->loss || !f->has || !f->taken)
        return false;
    for (int i = 0; i < f->paths; i++)
        for (int k = 0; k < f->path[i].parts; k++)
            f->first[f->path[i].part[k] + 2]++;
    for (int32_t part = 0; part < f->parts; part++)
        f->first[part + 2] += f->first[part + 1];
    for (int i = 0; i < f->paths; i++)
        for (int k = 0; k < f->path[i].parts; k++)
            f->on[f->first[f->path[i].part[k] + 1]++] = i;
    return true;
}

/* ---- loss ---- */

static double likelihood(const struct suspect_path *path, double pass)
{
    return (double)path->lost * log(1 - pass) + (double)(path->sent - path->lost) * log(pass);
}

static bool is_alive(const struct suspect_path *path, int32_t part)
{
    for (int k = 0; k < path->parts; k++)
        if (path->part[k] == part && path->alive & 1u << k)
            return true;
    return false;
}

static double gain_of(const struct blaming *f, int32_t part, double loss)
{
    double gain = 0;
    for (int32_t i = f->first[part]; i < f->first[part + 1]; i++) {
        const struct suspect_path *path = &f->path[f->on[i]];
        if (loss >= DEAD && is_alive(path, part))
            return -1;
        gain += likelihood(path, f->pass[f->on[i]] * (1 - loss)) - likelihood(path, f->pass[f->on[i]]);
    }
    return gain;
}

static void explain(struct blaming *f, int32_t part)
{
    f->gain[part] = 0;
    f->loss[part] = 0;
    for (size_t k = 0; !f->taken[part] && k < LOSSES; k++) {
        double gain = gain_of(f, part, losses[k]);
        if (gain > f->gain[part]) {
            f->gain[part] = gain;
            f->loss[part] = losses[k];
        }
    }
}

static void explain_losses(struct blaming *f)
{
    memset(f->gain, 0, (size_t)f->parts * sizeof *f->gain);
    for (int i = 0; i < f->paths; i++)
        for (int k = 0; f->path[i].lost && k < f->path[i].parts; k++)
            if (f->gain[f->path[i].part[k]] == 0)
                explain(f, f->path[i].part[k]);
}

static int32_t best_of(const struct blaming *f)
{
    int32_t best = -1;
    for (int32_t part = 0; part < f->parts; part++)
        if (f->gain[part] >= LEAST_GAIN && (best < 0 || f->gain[part] > f->gain[best]))
            best = part;
    return best;
}

static bool has_same_paths(const struct blaming *f, int32_t a, int32_t b)
{
    int32_t count = f->first[a + 1] - f->first[a];
    return count == f->first[b + 1] - f->first[b] &&
           memcmp(f->on + f->first[a], f->on + f->first[b], (size_t)count * sizeof *f->on) == 0;
}

static void add(struct blaming *f, const struct suspect *suspect)
{
    if (f->count < f->room)
        f->out[f->count++] = *suspect;
}

/* With `part` as an explanation of its loss, or without it again. */
static void put(struct blaming *f, int32_t part, double loss, bool in)
{
    for (int32_t i = f->first[part]; i < f->first[part + 1]; i++)
        f->pass[f->on[i]] = in ? f->pass[f->on[i]] * (1 - loss) : f->pass[f->on[i]] / (1 - loss);
    f->taken[part] = in;
}

/* One part after the other, the best first. */
static void take_best(struct blaming *f)
{
    for (int round = 0; round < ROUNDS; round++) {
        explain_losses(f);
        int32_t best = best_of(f);
        if (best < 0)
            return;
        f->has[best] = f->loss[best];
        put(f, best, f->has[best], true);
    }
}

/* A host of which two links are broken looks like one that loses half, until the links are taken: looks again at each
 * part with the others in place. */
static void fit_again(struct blaming *f)
{
    for (int32_t part = 0; part < f->parts; part++) {
        if (!f->taken[part])
            continue;
        put(f, part, f->has[part], false);
        explain(f, part);
        f->has[part] = f->gain[part] >= LEAST_GAIN ? f->loss[part] : 0;
        if (f->has[part] > 0)
            put(f, part, f->has[part], true);
    }
}

static bool is_on(const struct suspect_path *path, int32_t part)
{
    for (int k = 0; k < path->parts; k++)
        if (path->part[k] == part)
            return true;
    return false;
}

/* What is seen by one host alone, of several that could see it, may be that host: all paths that lose share a part that
 * other paths, which lose nothing, do not have. */
static bool is_of_one(const struct blaming *f, int32_t part)
{
    const struct suspect_path *first = NULL;
    for (int32_t i = f->first[part]; !first && i < f->first[part + 1]; i++)
        first = f->path[f->on[i]].lost ? &f->path[f->on[i]] : NULL;
    for (int k = 0; first && k < first->parts; k++) {
        bool all = true, others = false;
        for (int32_t i = f->first[part]; i < f->first[part + 1]; i++) {
            const struct suspect_path *path = &f->path[f->on[i]];
            bool has = is_on(path, first->part[k]);
            all &= has || !path->lost;
            others |= !has;
        }
        if (all && others)
            return true;
    }
    return false;
}

/* Another one in its place that explains as much: `part` is not sure. Those with the same paths are twins. */
static void blame_loss(struct blaming *f, int32_t part)
{
    bool doubtful = is_of_one(f, part);
    int begun = f->count;
    double gain;
    put(f, part, f->has[part], false);
    explain(f, part);
    gain = f->gain[part];
    add(f, &(struct suspect){.part = part, .loss = f->has[part], .rate = 1});
    for (int32_t i = f->first[part]; i < f->first[part + 1]; i++) {
        const struct suspect_path *path = &f->path[f->on[i]];
        for (int k = 0; path->lost && k < path->parts; k++) {
            int32_t other = path->part[k];
            if (other == part || f->taken[other])
                continue;
            explain(f, other);
            if (f->gain[other] < gain - CLEAR)
                continue;
            doubtful |= !has_same_paths(f, part, other);
            if (i == f->first[part])
                add(f, &(struct suspect){.part = other, .twin = true, .loss = f->has[part], .rate = 1});
        }
    }
    put(f, part, f->has[part], true);
    if (doubtful)
        f->count = begun;
    else if (f->count > begun + 1)
        f->out[begun].twin = true;
}

/* What most paths lose is the network's noise. */
static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *value, int count)
{
    if (!count)
        return 0;
    qsort(value, (size_t)count, sizeof *value, by_size);
    return value[count / 2];
}

static void find_losses(struct blaming *f, double *scratch)
{
    int count = 0;
    for (int i = 0; i < f->paths; i++)
        if (f->path[i].sent)
            scratch[count++] = (double)f->path[i].lost / (double)f->path[i].sent;
    double noise = NOISE + fmin(median(scratch, count), DEAD);
    for (int i = 0; i < f->paths; i++)
        f->pass[i] = 1 - noise;
    take_best(f);
    for (int round = 0; round < FITS; round++)
        fit_again(f);
    take_best(f);
    for (int32_t part = 0; part < f->parts; part++)
        if (f->taken[part])
            blame_loss(f, part);
}

/* ---- rates ---- */

/* The second best of the part's newest trains; 0: there are too few. Others' packets make a train slower, and a
 * receiver that was held up makes one faster. */
static double rate_of(const struct blaming *f, int32_t part, const bool *left_out)
{
    int32_t paths = 0, trains = 0;
    double best = 0, second = 0;
    for (int32_t i = f->first[part]; i < f->first[part + 1]; i++) {
        const double *rate = f->path[f->on[i]].rate;
        if (left_out[f->on[i]])
            continue;
        if (rate[0] <= 0)
            return 0;
        paths++;
        for (int k = 0; k < SUSPECT_TRAINS; k++) {
            trains += rate[k] > 0;
            second = rate[k] > best ? best : rate[k] > second ? rate[k] : second;
            best = rate[k] > best ? rate[k] : best;
        }
    }
    return trains >= TRAINS || (paths && trains >= paths * SUSPECT_TRAINS) ? second : 0;
}

static int32_t paths_left(const struct blaming *f, int32_t part, const bool *left_out)
{
    int32_t count = 0;
    for (int32_t i = f->first[part]; i < f->first[part + 1]; i++)
        count += !left_out[f->on[i]];
    return count;
}

/* The slow part that explains most paths, and then the slowest. */
static int32_t slowest_of(const struct blaming *f, const bool *left_out, double most, double *rate)
{
    int32_t slowest = -1, paths = 0;
    for (int32_t part = 0; part < f->parts; part++) {
        double is = rate_of(f, part, left_out);
        int32_t left = is > 0 && is < most ? paths_left(f, part, left_out) : 0;
        if (left > paths || (left && left == paths && is < *rate)) {
            slowest = part;
            paths = left;
            *rate = is;
        }
    }
    return slowest;
}

/* Parts of the same paths are slow together. */
static void blame_rate(struct blaming *f, int32_t part, double rate, bool *left_out)
{
    for (int32_t other = 0; other < f->parts; other++)
        if (other != part && has_same_paths(f, part, other))
            add(f, &(struct suspect){.part = other, .rate = rate});
    add(f, &(struct suspect){.part = part, .rate = rate});
    for (int32_t i = f->first[part]; i < f->first[part + 1]; i++)
        left_out[f->on[i]] = true;
}

static void mark_twins(struct blaming *f, int begun)
{
    for (int i = begun; i < f->count; i++)
        for (int k = begun; k < f->count; k++)
            f->out[i].twin |= i != k && has_same_paths(f, f->out[i].part, f->out[k].part);
}

static bool find_rates(struct blaming *f, double *scratch)
{
    int count = 0, begun = f->count;
    for (int i = 0; i < f->paths; i++)
        if (f->path[i].rate[0] > 0)
            scratch[count++] = f->path[i].rate[0];
    double usual = median(scratch, count);
    bool *left_out = calloc((size_t)f->paths + 1, sizeof *left_out);
    for (int round = 0; left_out && round < ROUNDS; round++) {
        double rate = 0;
        int32_t slowest = slowest_of(f, left_out, SUSPECT_SLOW * usual, &rate);
        if (slowest < 0)
            break;
        blame_rate(f, slowest, rate / usual, left_out);
    }
    bool good = left_out;
    mark_twins(f, begun);
    free(left_out);
    return good;
}

/* ---- the whole ---- */

int suspects_find(const struct suspect_path *path, int paths, int32_t parts, struct suspect *out, int room)
{
    struct blaming f = {.path = path, .paths = paths, .parts = parts, .out = out, .room = room};
    double *scratch = calloc((size_t)paths + 1, sizeof *scratch);
    bool good = scratch && make_index(&f);
    if (good) {
        find_losses(&f, scratch);
        good = find_rates(&f, scratch);
    }
    free(scratch);
    free(f.first);
    free(f.on);
    free(f.pass);
    free(f.gain);
    free(f.loss);
    free(f.has);
    free(f.taken);
    return good ? f.count : -1;
}
