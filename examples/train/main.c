/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job. Every rank sees the same batches in the same order and works on its share of each. One allreduce adds the
 * gradients, so all ranks take the same step. A batch is the same whatever the number of ranks: so is what is learnt,
 * but for rounding.
 */
#include "train.h"

#include "tutti/tutti.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_DATA "build/data/digits.csv"
#define HELD_OUT     5 /* every fifth image is kept for testing */

struct train_main_options {
    int epochs;
    size_t batch;
    float rate;
    uint64_t seed;
    const char *data;
};

struct main_job {
    struct train_main_options options;
    tutti_comm_t comm;
    int rank, nranks;
    struct images images;
    size_t *order, training; /* the first `training` of order; the rest is held out */
    struct network network, speed, gradient;
    double communication; /* seconds of this epoch */
};

static const char usage[] = "Usage: tutti run -n RANKS -- tutti-train [options]\n"
                            "Trains a network of two layers on handwritten digits, data-parallel.\n"
                            "  --epochs N   passes over the images (20)\n"
                            "  --batch N    images of a step, over all ranks (64)\n"
                            "  --lr X       learning rate (0.1)\n"
                            "  --seed N     of weights and order (1)\n"
                            "  --data FILE  the images (" DEFAULT_DATA "); examples/train/data.sh fetches them\n"
                            "  --help\n";

static void must(struct main_job *job, tutti_result_t result, const char *what)
{
    if (result == TUTTI_SUCCESS)
        return;
    fprintf(stderr, "tutti-train: %s: %s: %s\n", what, tutti_get_error_string(result), tutti_get_last_error(job->comm));
    exit(1);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static bool parse(int argc, char **argv, struct train_main_options *options)
{
    static const struct option longs[] = {{"epochs", 1, NULL, 'e'},
                                          {"batch", 1, NULL, 'b'},
                                          {"lr", 1, NULL, 'l'},
                                          {"seed", 1, NULL, 's'},
                                          {"data", 1, NULL, 'd'},
                                          {"help", 0, NULL, 'h'},
                                          {0}};
    int option;
    *options = (struct train_main_options){20, 64, 0.1f, 1, DEFAULT_DATA};
    while ((option = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        switch (option) {
        case 'e':
            options->epochs = atoi(optarg);
            break;
        case 'b':
            options->batch = (size_t)atol(optarg);
            break;
        case 'l':
            options->rate = strtof(optarg, NULL);
            break;
        case 's':
            options->seed = strtoull(optarg, NULL, 10);
            break;
        case 'd':
            options->data = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            return false;
        }
    }
    return optind == argc && options->epochs > 0 && options->batch > 0 && options->batch < 100000 && options->rate > 0;
}

/* All ranks add what they have: the gradient, and with it the loss. */
static void add_up(struct main_job *job, float *loss)
{
    double begin = now();
    tutti_group_start();
    tutti_allreduce(&job->gradient, &job->gradient, NETWORK_FLOATS, TUTTI_FLOAT32, TUTTI_SUM, job->comm, NULL);
    tutti_allreduce(loss, loss, 1, TUTTI_FLOAT32, TUTTI_SUM, job->comm, NULL);
    must(job, tutti_group_end(), "allreduce");
    must(job, tutti_comm_synchronize(job->comm), "allreduce");
    job->communication += now() - begin;
}

/* This rank's images of a batch: every nranks-th. */
static float learn_batch(struct main_job *job, size_t begin, size_t end)
{
    float loss = 0;
    memset(&job->gradient, 0, sizeof job->gradient);
    for (size_t i = begin + (size_t)job->rank; i < end; i += (size_t)job->nranks)
        loss += network_learn(&job->network, &job->images.image[job->order[i]], &job->gradient);
    add_up(job, &loss);
    network_step(&job->network, &job->speed, &job->gradient, job->options.rate, end - begin);
    return loss;
}

static void show_progress(const struct main_job *job, int epoch, size_t done)
{
    if (job->rank == 0 && isatty(STDOUT_FILENO)) {
        int width = (int)(done * 30 / job->training);
        printf("\repoch %3d [%-30.*s]", epoch, width, "##############################");
        fflush(stdout);
    }
}

static float train_epoch(struct main_job *job, int epoch, uint64_t *state)
{
    float loss = 0;
    shuffle(job->order, job->training, state);
    job->communication = 0;
    for (size_t begin = 0; begin < job->training; begin += job->options.batch) {
        size_t end = begin + job->options.batch < job->training ? begin + job->options.batch : job->training;
        loss += learn_batch(job, begin, end);
        show_progress(job, epoch, end);
    }
    return loss / (float)job->training;
}

/* Right answers among the images held out; each rank tries its share. */
static double test(struct main_job *job)
{
    int64_t right = 0;
    size_t held_out = job->images.count - job->training;
    for (size_t i = job->training + (size_t)job->rank; i < job->images.count; i += (size_t)job->nranks) {
        const struct image *image = &job->images.image[job->order[i]];
        right += network_guess(&job->network, image) == image->digit;
    }
    must(job, tutti_allreduce(&right, &right, 1, TUTTI_INT64, TUTTI_SUM, job->comm, NULL), "allreduce");
    must(job, tutti_comm_synchronize(job->comm), "allreduce");
    return (double)right / (double)held_out;
}

static void split_images(struct main_job *job)
{
    size_t last = job->images.count;
    job->order = malloc(job->images.count * sizeof *job->order);
    if (!job->order) {
        fprintf(stderr, "tutti-train: no memory\n");
        exit(1);
    }
    for (size_t i = 0; i < job->images.count; i++)
        job->order[i % HELD_OUT == 0 ? --last : job->training++] = i;
}

static void run(struct main_job *job)
{
    uint64_t state = job->options.seed * 2 + 1;
    double accuracy = 0;
    network_start(&job->network, &state);
    /* All ranks would make the same weights; a real job reads them on one rank, as here. */
    must(job, tutti_broadcast(&job->network, &job->network, NETWORK_FLOATS, TUTTI_FLOAT32, 0, job->comm, NULL),
         "broadcast");
    must(job, tutti_comm_synchronize(job->comm), "broadcast");
    if (job->rank == 0)
        printf("%zu images to learn, %zu held out; %zu weights; %d ranks, batches of %zu\n%5s %9s %9s %10s %13s\n",
               job->training, job->images.count - job->training, NETWORK_FLOATS, job->nranks, job->options.batch,
               "epoch", "loss", "accuracy", "images/s", "communication");
    for (int epoch = 1; epoch <= job->options.epochs; epoch++) {
        double begin = now();
        float loss = train_epoch(job, epoch, &state);
        double seconds = now() - begin;
        accuracy = test(job);
        if (job->rank == 0)
            printf("%s%5d %9.4f %8.2f%% %10.0f %12.1f%%\n", isatty(STDOUT_FILENO) ? "\r\033[K" : "", epoch, loss,
                   accuracy * 100, (double)job->training / seconds, job->communication / seconds * 100);
        fflush(stdout);
    }
    if (job->rank == 0)
        printf("held-out accuracy: %.2f%%\n", accuracy * 100);
}

int main(int argc, char **argv)
{
    static struct main_job job;
    if (!parse(argc, argv, &job.options)) {
        fputs(usage, stderr);
        return 2;
    }
    if (!images_read(job.options.data, &job.images)) {
        free(job.images.image);
        return 1;
    }
    must(&job, tutti_comm_init_from_env(&job.comm, NULL), "init");
    must(&job, tutti_comm_rank(job.comm, &job.rank), "rank");
    must(&job, tutti_comm_count(job.comm, &job.nranks), "count");
    split_images(&job);
    run(&job);
    must(&job, tutti_comm_destroy(job.comm), "destroy");
    free(job.order);
    free(job.images.image);
    return 0;
}
