/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of tables/gpu.tbl that are no parameters. */
#ifndef TUTTI_DEVICE_CUDA_NUMBERS_H
#define TUTTI_DEVICE_CUDA_NUMBERS_H

#define NUMBER(name, value, unit, measured, what) NUMBER_##name = (value),
#define OF_PARAMETER(...)
#define THRESHOLD(...)
enum {
#include "tables/gpu.tbl"
};
#undef NUMBER
#undef OF_PARAMETER
#undef THRESHOLD

#endif
