/* SPDX-License-Identifier: Apache-2.0 */
/* One compilation of the kernels for one set of vector instructions. All sets give the same bits. */
#ifndef TUTTI_DEVICE_HOST_KERNEL_H
#define TUTTI_DEVICE_HOST_KERNEL_H

#include "device/reduce.h"

#define KERNEL_OPS 4 /* sum, prod, max, min; an average is a sum that is divided at the end */

struct kernel_set {
    const char *name;
    reduction_fold_fn *fold[TUTTI_TYPE_COUNT][KERNEL_OPS];
    reduction_fold_fn *fold_stream[TUTTI_TYPE_COUNT][KERNEL_OPS];
    reduction_map_fn *scale[TUTTI_TYPE_COUNT];         /* times the operand */
    reduction_map_fn *divide[TUTTI_TYPE_COUNT];        /* by the operand; NULL for integers */
    float (*decode)(tutti_type_t type, uint32_t bits); /* one float narrower than fp32 */
    void (*copy_stream)(void *dst, const void *src, size_t bytes);
};

/* Every set of this build, the portable one first, the best last, NULL-terminated; and whether this processor can run
 * one. */
extern const struct kernel_set *const kernel_sets[];
bool kernel_set_usable(const struct kernel_set *set);

/* The set that TUTTI_SIMD asks for (NULL if there is none), and resolution from a given set, for tests and benchmarks.
 */
const struct kernel_set *kernel_set_chosen(void);
tutti_result_t reduction_init_from(const struct kernel_set *set, struct reduction *out, tutti_type_t type,
                                   tutti_op_t op, int nranks, const void *scalar);

#endif
