/* SPDX-License-Identifier: Apache-2.0 */
/* The network: forward, backward, step. */
#include "train.h"

#include <math.h>
#include <string.h>

static float uniform(uint64_t *state, float width)
{
    return ((float)random_next(state) / 2147483648.0f * 2 - 1) * width;
}

void network_start(struct network *network, uint64_t *state)
{
    memset(network, 0, sizeof *network);
    for (int h = 0; h < HIDDEN; h++)
        for (int p = 0; p < PIXELS; p++)
            network->first[h][p] = uniform(state, sqrtf(6.0f / PIXELS));
    for (int c = 0; c < CLASSES; c++)
        for (int h = 0; h < HIDDEN; h++)
            network->second[c][h] = uniform(state, sqrtf(6.0f / HIDDEN));
}

static void forward(const struct network *network, const float *pixel, float *hidden, float *score)
{
    for (int h = 0; h < HIDDEN; h++) {
        float sum = network->first_bias[h];
        for (int p = 0; p < PIXELS; p++)
            sum += network->first[h][p] * pixel[p];
        hidden[h] = sum > 0 ? sum : 0;
    }
    for (int c = 0; c < CLASSES; c++) {
        score[c] = network->second_bias[c];
        for (int h = 0; h < HIDDEN; h++)
            score[c] += network->second[c][h] * hidden[h];
    }
}

static int best(const float *score)
{
    int guess = 0;
    for (int c = 1; c < CLASSES; c++)
        guess = score[c] > score[guess] ? c : guess;
    return guess;
}

/* Scores become probabilities. */
static void softmax(float *score)
{
    float most = score[best(score)], sum = 0;
    for (int c = 0; c < CLASSES; c++)
        sum += score[c] = expf(score[c] - most);
    for (int c = 0; c < CLASSES; c++)
        score[c] /= sum;
}

float network_learn(const struct network *network, const struct image *image, struct network *gradient)
{
    float hidden[HIDDEN], error[CLASSES], back[HIDDEN] = {0};
    forward(network, image->pixel, hidden, error);
    softmax(error);
    float loss = -logf(error[image->digit] + 1e-9f);
    error[image->digit] -= 1;
    for (int c = 0; c < CLASSES; c++) {
        gradient->second_bias[c] += error[c];
        for (int h = 0; h < HIDDEN; h++) {
            gradient->second[c][h] += error[c] * hidden[h];
            back[h] += error[c] * network->second[c][h];
        }
    }
    for (int h = 0; h < HIDDEN; h++) {
        if (hidden[h] <= 0)
            continue;
        gradient->first_bias[h] += back[h];
        for (int p = 0; p < PIXELS; p++)
            gradient->first[h][p] += back[h] * image->pixel[p];
    }
    return loss;
}

int network_guess(const struct network *network, const struct image *image)
{
    float hidden[HIDDEN], score[CLASSES];
    forward(network, image->pixel, hidden, score);
    return best(score);
}

void network_step(struct network *network, struct network *speed, const struct network *gradient, float rate,
                  size_t count)
{
    float *weight = (float *)network, *v = (float *)speed;
    const float *g = (const float *)gradient;
    for (size_t i = 0; i < NETWORK_FLOATS; i++) {
        v[i] = 0.9f * v[i] + g[i] / (float)count;
        weight[i] -= rate * v[i];
    }
}
