/* SPDX-License-Identifier: Apache-2.0 */
/* Labelled rows of numbers, read from a CSV file: features, then the class, as the digits of scikit-learn are stored. */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H

#include <stdbool.h>
#include <stddef.h>

struct data {
    size_t rows, features, classes;
    float *x;   /* rows * features, scaled to 0..1 */
    int *label; /* rows */
};

/* Reads the file; false, with a sentence on standard error, if it cannot. The caller calls data_free in either case. */
bool data_read(struct data *out, const char *path);
void data_free(struct data *data);

#endif
