/* SPDX-License-Identifier: Apache-2.0 */
/* Types, operators, and the data that ranks send and must receive. */
#ifndef TUTTI_CLI_PERF_DATA_H
#define TUTTI_CLI_PERF_DATA_H

#include "cli/perf_collectives.h"

#include <stdint.h>

struct type_row {
    const char *name, *aliases; /* " a b " */
    size_t size;
};
extern const struct type_row type_rows[TUTTI_TYPE_COUNT];

enum { OP_MULSUM = TUTTI_OP_COUNT, OP_ROWS }; /* MULSUM: an operator made by tutti_op_create_premul_sum */
extern const char *const op_names[OP_ROWS];

/* Data repeats with a prime period, so that blocks that go to a wrong place show. */
enum { DATA_PERIOD = 16381, DATA_REDUCED = -1 };
static inline int data_first(int rank)
{
    return DATA_REDUCED - 1 - rank;
}

/* Writes one period of data for data_fill() and data_wrong(). Any order of reducing the data gives the same bits. For
 * collectives that do not reduce, any bits. A whole period of a reduction of hundreds of ranks takes longer than all
 * else that a short measurement does. */
void data_table(void *out, const struct perf_shape *shape, int rank, size_t start, size_t count);
/* Element i of out is that of the period at start + i. */
void data_fill(void *out, const void *table, size_t element, size_t start, size_t count);
/* Counts elements that differ; *first is the index of the first one. */
size_t data_wrong(const void *data, const void *table, size_t element, size_t start, size_t count, size_t *first);
/* The scalar of MULSUM for `rank`, as one element of `type`. */
void data_scalar(void *out, tutti_type_t type, int rank);

#endif
