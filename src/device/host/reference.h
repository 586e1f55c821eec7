/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: reductions one element at a time, in an independent and slow way, straight from docs/device.md. */
#ifndef TUTTI_DEVICE_HOST_REFERENCE_H
#define TUTTI_DEVICE_HOST_REFERENCE_H

#include "device/reduce.h"

/* dst = src[0] op ... op src[nsrc-1], one element; op may not be an average. */
void reference_fold(tutti_type_t type, tutti_op_t op, void *dst, const void *const *src, int nsrc);

/* dst = src * scalar, dst = src / n, one element. */
void reference_scale(tutti_type_t type, void *dst, const void *src, const void *scalar);
void reference_divide(tutti_type_t type, void *dst, const void *src, int n);

/* A float narrower than fp32 to fp32, and fp32 rounded to it. */
float reference_decode(tutti_type_t type, unsigned bits);
unsigned reference_encode(tutti_type_t type, float value);

#endif
