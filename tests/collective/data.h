/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test data whose results are known exactly: elements repeat with a prime period, so that a reference of a whole vector
 * is a small table. Every order of summation gives the same bits in every type. For at most 16 ranks.
 */
#ifndef TUTTI_TESTS_COLLECTIVE_DATA_H
#define TUTTI_TESTS_COLLECTIVE_DATA_H

#include "tutti/tutti.h"

#include <stdbool.h>

#define DATA_PERIOD 1009
#define DATA_COPY   (-1) /* op: any bits, to be moved only */
#define DATA_PREMUL TUTTI_OP_COUNT

struct data_table {
    size_t size; /* bytes of an element */
    unsigned char bytes[DATA_PERIOD * 8];
};

size_t data_size(tutti_type_t type);
const char *data_type_name(tutti_type_t type);
const char *data_op_name(int op);
uint64_t data_hash(uint64_t a, uint64_t b);

/* What `rank` contributes, and what all contributions give. */
void data_input(struct data_table *table, tutti_type_t type, int op, int rank, uint64_t seed);
void data_result(struct data_table *table, tutti_type_t type, int op, int nranks, uint64_t seed);
/* The scalar of a rank's pre-multiplied sum. */
uint64_t data_scalar(tutti_type_t type, int rank);

/* Elements shift, shift + 1, ... of the endless vector that the table repeats. */
void data_fill(void *to, const struct data_table *table, size_t shift, size_t count);

/* Equal, or within one unit in the last place where `rounds` (averages). */
bool data_same(const void *got, const void *want, tutti_type_t type, bool rounds);

#endif
