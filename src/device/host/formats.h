/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes of the floats narrower than fp32 that have no cheap path of their own. */
#ifndef TUTTI_DEVICE_HOST_FORMATS_H
#define TUTTI_DEVICE_HOST_FORMATS_H

#include <stdint.h>

struct small_float {
    int bias, mantissa;     /* bits of the mantissa */
    int sign_shift;         /* from its sign to fp32's */
    uint32_t magnitude;     /* mask of all bits but the sign */
    uint32_t largest;       /* bits of the largest finite value */
    uint32_t infinity;      /* bits of infinity; none: 0 */
    uint32_t overflow;      /* what a finite value too large becomes */
    uint32_t kept_infinity; /* what an infinity becomes */
    uint32_t nan;
};

static const struct small_float float_f16 = {15, 10, 16, 0x7fff, 0x7bff, 0x7c00, 0x7c00, 0x7c00, 0x7e00};
static const struct small_float float_e4m3 = {7, 3, 24, 0x7f, 0x7e, 0, 0x7e, 0x7e, 0x7f};
static const struct small_float float_e5m2 = {15, 2, 24, 0x7f, 0x7b, 0x7c, 0x7b, 0x7c, 0x7e};

#endif
