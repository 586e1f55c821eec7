/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA driver as a table of functions, loaded when first needed: the library itself links nothing of CUDA. */
#ifndef TUTTI_DEVICE_CUDA_DRIVER_H
#define TUTTI_DEVICE_CUDA_DRIVER_H

#include "device/cuda/abi.h"
#include "tutti/tutti.h"

#include <stdbool.h>

/* Rows marked as not needed in driver.tbl may be NULL: a driver older than the call. */
struct cuda_driver {
#define CALL(member, symbol, needed, arguments) CUresult(*member) arguments;
#include "device/cuda/driver.tbl"
#undef CALL
};

/*
 * The driver, loaded (TUTTI_CUDA_LIBRARY, default libcuda.so.1) and initialized by the first call; later calls give the
 * same answer. TUTTI_DEVICE_ERROR, always with the same sentence, where there is no driver, no GPU, or a driver that is
 * too old. Any thread. The first failure is logged at level info only: a host without GPUs is nothing to warn of.
 */
tutti_result_t cuda_driver(const struct cuda_driver **out);

/* TUTTI_SUCCESS, or TUTTI_DEVICE_ERROR with a sentence: what was tried, and the driver's name and text for the result.
 */
tutti_result_t cuda_check(CUresult result, const char *tried);

/* As cuda_check, without a log line: for what may well fail. */
tutti_result_t cuda_note(CUresult result, const char *tried);

/* "CUDA_ERROR_OUT_OF_MEMORY (out of memory)", as the driver says it, into out. */
const char *cuda_result_text(CUresult result, char *out, size_t size);

#endif
