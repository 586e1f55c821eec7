/* SPDX-License-Identifier: Apache-2.0 */
/* hidden = max(0, A x + a); outcome = softmax(B hidden + b); loss = cross-entropy. The vector holds A, a, B, b. */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool model_init(struct model *m, size_t inputs, size_t hidden, size_t classes)
{
    *m = (struct model){.inputs = inputs, .hidden = hidden, .classes = classes};
    m->count = hidden * (inputs + 1) + classes * (hidden + 1);
    m->weights = calloc(m->count, sizeof(float));
    m->gradients = calloc(m->count + 1, sizeof(float));
    m->momentum = calloc(m->count, sizeof(float));
    m->activation = calloc(hidden, sizeof(float));
    m->backward = calloc(hidden, sizeof(float));
    m->outcome = calloc(classes, sizeof(float));
    return m->weights && m->gradients && m->momentum && m->activation && m->backward && m->outcome;
}

void model_free(struct model *m)
{
    free(m->weights);
    free(m->gradients);
    free(m->momentum);
    free(m->activation);
    free(m->backward);
    free(m->outcome);
    *m = (struct model){0};
}

uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

static void draw_layer(float *weights, size_t outputs, size_t inputs, uint64_t *state)
{
    float width = sqrtf(6.0f / (float)inputs);
    for (size_t i = 0; i < outputs * inputs; i++)
        weights[i] = width * ((float)(random_next(state) >> 40) * 0x1p-23f - 1);
}

static size_t second_layer(const struct model *m)
{
    return m->hidden * (m->inputs + 1);
}

void model_draw(struct model *m, uint64_t seed)
{
    memset(m->weights, 0, m->count * sizeof(float));
    draw_layer(m->weights, m->hidden, m->inputs, &seed);
    draw_layer(m->weights + second_layer(m), m->classes, m->hidden, &seed);
}

/* y = W x + b, where b follows W. */
static void layer(float *y, const float *w, const float *x, size_t outputs, size_t inputs)
{
    for (size_t o = 0; o < outputs; o++) {
        float sum = w[outputs * inputs + o];
        for (size_t i = 0; i < inputs; i++)
            sum += w[o * inputs + i] * x[i];
        y[o] = sum;
    }
}

static void forward(struct model *m, const float *x)
{
    layer(m->activation, m->weights, x, m->hidden, m->inputs);
    for (size_t h = 0; h < m->hidden; h++)
        m->activation[h] = fmaxf(m->activation[h], 0);
    layer(m->outcome, m->weights + second_layer(m), m->activation, m->classes, m->hidden);
}

/* Turns outcomes into probabilities; returns the logarithm of the divisor, for the loss. */
static float softmax(float *y, size_t count)
{
    float largest = y[0], sum = 0;
    for (size_t i = 1; i < count; i++)
        largest = fmaxf(largest, y[i]);
    for (size_t i = 0; i < count; i++)
        sum += expf(y[i] - largest);
    for (size_t i = 0; i < count; i++)
        y[i] = expf(y[i] - largest) / sum;
    return largest + logf(sum);
}

/* Adds the layer's gradients: error (outputs) times x (inputs), and the error itself for the bias. */
static void add_gradients(float *g, const float *error, const float *x, size_t outputs, size_t inputs)
{
    for (size_t o = 0; o < outputs; o++) {
        for (size_t i = 0; i < inputs; i++)
            g[o * inputs + i] += error[o] * x[i];
        g[outputs * inputs + o] += error[o];
    }
}

void model_clear(struct model *m)
{
    memset(m->gradients, 0, (m->count + 1) * sizeof(float));
}

void model_learn_row(struct model *m, const float *x, int label)
{
    const float *w = m->weights + second_layer(m);
    forward(m, x);
    float right = m->outcome[label];
    m->gradients[m->count] += softmax(m->outcome, m->classes) - right;
    m->outcome[label] -= 1;
    for (size_t h = 0; h < m->hidden; h++) {
        float sum = 0;
        for (size_t c = 0; c < m->classes; c++)
            sum += w[c * m->hidden + h] * m->outcome[c];
        m->backward[h] = m->activation[h] > 0 ? sum : 0;
    }
    add_gradients(m->gradients, m->backward, x, m->hidden, m->inputs);
    add_gradients(m->gradients + second_layer(m), m->outcome, m->activation, m->classes, m->hidden);
}

void model_step(struct model *m, size_t rows, float rate, float momentum)
{
    for (size_t i = 0; i < m->count; i++) {
        m->momentum[i] = momentum * m->momentum[i] - rate / (float)rows * m->gradients[i];
        m->weights[i] += m->momentum[i];
    }
}

int model_classify(struct model *m, const float *x)
{
    size_t best = 0;
    forward(m, x);
    for (size_t c = 1; c < m->classes; c++)
        if (m->outcome[c] > m->outcome[best])
            best = c;
    return (int)best;
}
