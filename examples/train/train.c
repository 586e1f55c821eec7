/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tutti-train: data-parallel training of a small network on handwritten digits. Every rank holds the same weights and takes
 * its part of each batch; one allreduce adds up the gradients (and, in its last element, the loss), and all ranks take the
 * same step. Any number of ranks sees the same batches, so the results agree but for rounding.
 */
#include "data.h"
#include "model.h"

#include <tutti/tutti.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN       64
#define RATE         0.1f /* at the start; falls evenly to nothing */
#define MOMENTUM     0.9f
#define HELD_OUT     5 /* every fifth row is held out */
#define DEFAULT_FILE "../share/tutti/digits.csv" /* from the program's folder; examples/train/fetch.sh puts it there */

struct options {
    long epochs, batch, seed;
    char path[4096];
};

struct job {
    struct options options;
    tutti_comm_t comm;
    int rank, nranks;
    struct data data;
    struct model model;
    size_t *train, *held_out; /* row numbers; train is shuffled for every epoch */
    size_t train_rows, held_out_rows;
    double started;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void usage(FILE *to)
{
    fprintf(to, "usage: tutti run -n RANKS -- tutti-train [--epochs N] [--batch N] [--seed N] [--data FILE]\n"
                "Trains a network of one hidden layer on handwritten digits, each batch divided among the ranks.\n"
                "  --epochs N   passes over the data (20)\n"
                "  --batch N    rows of one step, of all ranks together (64)\n"
                "  --seed N     of the first weights and the order of the rows (1)\n"
                "  --data FILE  CSV: numbers and a class in each row (digits.csv in ../share/tutti of the program)\n"
                "  --help       this text\n");
}

static bool check(struct job *job, const char *what, tutti_result_t result)
{
    if (result == TUTTI_SUCCESS)
        return true;
    fprintf(stderr, "tutti-train: %s: %s: %s\n", what, tutti_get_error_string(result), tutti_get_last_error(job->comm));
    return false;
}

static bool parse_number(const char *name, const char *text, long least, long *out)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < least || value > 1000000000) {
        fprintf(stderr, "tutti-train: --%s %s: want a number from %ld to 1000000000\n", name, text, least);
        return false;
    }
    *out = value;
    return true;
}

static void default_path(char *out, size_t size)
{
    char program[2048];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    char *slash = strrchr(program, '/');
    snprintf(out, size, "%.*s%s", slash ? (int)(slash + 1 - program) : 0, program, DEFAULT_FILE);
}

/* -1: go on; otherwise the exit status. */
static int parse_options(struct options *o, int argc, char **argv)
{
    static const struct option names[] = {{"epochs", required_argument, NULL, 'e'}, {"batch", required_argument, NULL, 'b'},
                                          {"seed", required_argument, NULL, 's'},   {"data", required_argument, NULL, 'd'},
                                          {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    bool good = true;
    *o = (struct options){.epochs = 20, .batch = 64, .seed = 1};
    default_path(o->path, sizeof o->path);
    for (int c; good && (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (c == 'h') {
            usage(stdout);
            return 0;
        }
        if (c == 'e')
            good = parse_number("epochs", optarg, 1, &o->epochs);
        else if (c == 'b')
            good = parse_number("batch", optarg, 1, &o->batch);
        else if (c == 's')
            good = parse_number("seed", optarg, 0, &o->seed);
        else if (c == 'd')
            good = (size_t)snprintf(o->path, sizeof o->path, "%s", optarg) < sizeof o->path;
        else
            good = false;
    }
    if (good && optind == argc)
        return -1;
    usage(stderr);
    return 2;
}

static bool join(struct job *job)
{
    return check(job, "joining", tutti_comm_init_from_env(&job->comm, NULL)) &&
           check(job, "asking for the rank", tutti_comm_rank(job->comm, &job->rank)) &&
           check(job, "asking for the size", tutti_comm_count(job->comm, &job->nranks));
}

static bool load(struct job *job)
{
    struct data *data = &job->data;
    if (!data_read(data, job->options.path)) {
        if (job->rank == 0)
            fprintf(stderr, "tutti-train: examples/train/fetch.sh FILE fetches the digits; then --data FILE\n");
        return false;
    }
    job->train = calloc(data->rows, sizeof(size_t));
    job->held_out = calloc(data->rows, sizeof(size_t));
    if (!job->train || !job->held_out || !model_init(&job->model, data->features, HIDDEN, data->classes)) {
        fprintf(stderr, "tutti-train: no memory for %zu rows of %zu numbers\n", data->rows, data->features);
        return false;
    }
    for (size_t row = 0; row < data->rows; row++) {
        if (row % HELD_OUT == HELD_OUT - 1)
            job->held_out[job->held_out_rows++] = row;
        else
            job->train[job->train_rows++] = row;
    }
    return true;
}

/* Rank 0 draws the weights, so that they are the same everywhere whatever the processors. */
static bool share_weights(struct job *job)
{
    struct model *m = &job->model;
    if (job->rank == 0)
        model_draw(m, (uint64_t)job->options.seed);
    return check(job, "sharing the weights",
                 tutti_broadcast(m->weights, m->weights, m->count, TUTTI_FLOAT32, 0, job->comm, NULL)) &&
           check(job, "sharing the weights", tutti_comm_synchronize(job->comm));
}

static void shuffle(struct job *job, long epoch)
{
    uint64_t state = (uint64_t)job->options.seed * 1000003 + (uint64_t)epoch;
    for (size_t i = job->train_rows - 1; i > 0; i--) {
        size_t j = random_next(&state) % (i + 1), row = job->train[i];
        job->train[i] = job->train[j];
        job->train[j] = row;
    }
}

/* This rank's part of `count` rows is [part(r), part(r + 1)). */
static size_t part(const struct job *job, int rank, size_t count)
{
    return count * (size_t)rank / (size_t)job->nranks;
}

static bool train_batch(struct job *job, const size_t *rows, size_t count, float rate, double *loss)
{
    struct model *m = &job->model;
    model_clear(m);
    for (size_t i = part(job, job->rank, count); i < part(job, job->rank + 1, count); i++)
        model_learn_row(m, job->data.x + rows[i] * job->data.features, job->data.label[rows[i]]);
    if (!check(job, "adding up the gradients",
               tutti_allreduce(m->gradients, m->gradients, m->count + 1, TUTTI_FLOAT32, TUTTI_SUM, job->comm, NULL)) ||
        !check(job, "adding up the gradients", tutti_comm_synchronize(job->comm)))
        return false;
    *loss += (double)m->gradients[m->count];
    model_step(m, count, rate, MOMENTUM);
    return true;
}

/* On a terminal, the bar of the running epoch. */
static void show_bar(const struct job *job, long epoch, size_t done)
{
    enum { WIDTH = 30 };
    size_t full = done * WIDTH / job->train_rows;
    if (job->rank != 0 || !isatty(STDOUT_FILENO))
        return;
    printf("\repoch %3ld/%ld [%.*s%*s]", epoch, job->options.epochs, (int)full, "##############################",
           (int)(WIDTH - full), "");
    fflush(stdout);
}

static bool train_epoch(struct job *job, long epoch, double *loss)
{
    size_t batch = (size_t)job->options.batch;
    float rate = RATE * (float)(job->options.epochs - epoch + 1) / (float)job->options.epochs;
    *loss = 0;
    shuffle(job, epoch);
    for (size_t at = 0; at < job->train_rows; at += batch) {
        size_t left = job->train_rows - at;
        if (!train_batch(job, job->train + at, left < batch ? left : batch, rate, loss))
            return false;
        show_bar(job, epoch, at + (left < batch ? left : batch));
    }
    *loss /= (double)job->train_rows;
    return true;
}

/* Percent of the held-out rows that are classified right; each rank looks at its part. */
static bool held_out_accuracy(struct job *job, double *percent)
{
    int64_t right = 0;
    for (size_t i = part(job, job->rank, job->held_out_rows); i < part(job, job->rank + 1, job->held_out_rows); i++) {
        size_t row = job->held_out[i];
        right += model_classify(&job->model, job->data.x + row * job->data.features) == job->data.label[row];
    }
    if (!check(job, "counting", tutti_allreduce(&right, &right, 1, TUTTI_INT64, TUTTI_SUM, job->comm, NULL)) ||
        !check(job, "counting", tutti_comm_synchronize(job->comm)))
        return false;
    *percent = 100.0 * (double)right / (double)job->held_out_rows;
    return true;
}

static bool train(struct job *job)
{
    double loss = 0, percent = 0;
    bool speaks = job->rank == 0;
    if (speaks)
        printf("%zu rows to learn, %zu held out; %zu weights; %d rank%s, batches of %ld\n", job->train_rows,
               job->held_out_rows, job->model.count, job->nranks, job->nranks == 1 ? "" : "s", job->options.batch);
    if (!share_weights(job))
        return false;
    job->started = now();
    for (long epoch = 1; epoch <= job->options.epochs; epoch++) {
        if (!train_epoch(job, epoch, &loss) || !held_out_accuracy(job, &percent))
            return false;
        if (speaks)
            printf("%sepoch %3ld/%ld  loss %.4f  held-out accuracy %.2f %%%s\n", isatty(STDOUT_FILENO) ? "\r" : "", epoch,
                   job->options.epochs, loss, percent, isatty(STDOUT_FILENO) ? "\033[K" : "");
    }
    if (speaks)
        printf("done in %.2f s: loss %.4f, held-out accuracy %.2f %%\n", now() - job->started, loss, percent);
    return fflush(stdout) == 0;
}

int main(int argc, char **argv)
{
    struct job job = {0};
    int status = parse_options(&job.options, argc, argv);
    if (status >= 0)
        return status;
    bool done = join(&job) && load(&job) && train(&job);
    if (job.comm && !done)
        tutti_comm_abort(job.comm);
    if (!check(&job, "leaving", tutti_comm_destroy(job.comm)))
        done = false;
    model_free(&job.model);
    data_free(&job.data);
    free(job.train);
    free(job.held_out);
    return done ? 0 : 1;
}
