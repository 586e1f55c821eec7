/* SPDX-License-Identifier: Apache-2.0 */
/* A perceptron with one hidden layer. All weights are one vector, and so are their gradients: one allreduce moves them. */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model {
    size_t inputs, hidden, classes;
    size_t count;                /* of weights */
    float *weights;
    float *gradients;            /* sums over the rows seen since model_clear; one more element at the end: their loss */
    float *momentum;
    float *activation, *outcome; /* of one row */
    float *backward;
};

/* false if memory is short; the caller calls model_free in either case. */
bool model_init(struct model *m, size_t inputs, size_t hidden, size_t classes);
void model_free(struct model *m);

/* Random first weights, a function of the seed alone. */
void model_draw(struct model *m, uint64_t seed);

/* Adds one row's gradients and loss. */
void model_clear(struct model *m);
void model_learn_row(struct model *m, const float *x, int label);

/* One step of gradient descent with momentum, on the gradients of `rows` rows. */
void model_step(struct model *m, size_t rows, float rate, float momentum);

/* The most likely class. */
int model_classify(struct model *m, const float *x);

/* Random numbers: SplitMix64. */
uint64_t random_next(uint64_t *state);

#endif
