/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of libnccl.so.2 share: communicators on host memory, made in one thread. */
#ifndef TUTTI_COMPAT_NCCL_TESTING_H
#define TUTTI_COMPAT_NCCL_TESTING_H

#define NCCL_WITHOUT_CUDA_HEADERS 1
#include "nccl/nccl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those above */
#include <cmocka.h>

#define RANKS              4
#define good(call)         assert_int_equal((call), ncclSuccess)
#define fails(call, error) assert_int_equal((call), (error))

/* The sentence of this thread's last failure has this in it. */
#define said(words) assert_non_null(strstr(ncclGetLastError(NULL), words))

#endif
