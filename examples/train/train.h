/* SPDX-License-Identifier: Apache-2.0 */
/* Data-parallel training of a small network on handwritten digits: the data, the network, the job. */
#ifndef TUTTI_EXAMPLE_TRAIN_H
#define TUTTI_EXAMPLE_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PIXELS  64
#define CLASSES 10
#define HIDDEN  64

struct image {
    float pixel[PIXELS]; /* 0 to 1 */
    int digit;
};

struct images {
    struct image *image;
    size_t count;
};

/* Reads lines of 64 pixels (0 to 16) and a digit. False: says why on stderr. */
bool images_read(const char *path, struct images *out);

/* Numbers that depend on the seed alone: the same on every rank. */
uint32_t random_next(uint64_t *state);
void shuffle(size_t *order, size_t count, uint64_t *state);

/* A network of two layers: relu, softmax. Weights and gradients are flat, so that one allreduce takes them all. */
struct network {
    float first[HIDDEN][PIXELS], first_bias[HIDDEN];
    float second[CLASSES][HIDDEN], second_bias[CLASSES];
};
#define NETWORK_FLOATS (sizeof(struct network) / sizeof(float))

void network_start(struct network *network, uint64_t *state);
/* Adds the gradient of one image's loss; returns the loss. */
float network_learn(const struct network *network, const struct image *image, struct network *gradient);
int network_guess(const struct network *network, const struct image *image);
/* One step of gradient descent with momentum. `gradient` is the sum over `count` images. */
void network_step(struct network *network, struct network *speed, const struct network *gradient, float rate,
                  size_t count);

#endif
