/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel for exchanges, of blocks of several threads. */
#define tutti_exchange threads_exchange_of /* one of that name is there already */
#include "device/cuda/kernels/exchange.cu"

extern "C" void threads_exchange(const void *what)
{
    threads_exchange_of(*(const struct kernel_exchange *)what);
}
