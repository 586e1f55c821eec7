/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel for exchanges whose lengths only GPUs know, of blocks of several threads. */
#define tutti_exchange_dynamic threads_exchange_dynamic_of /* one of this name is there already */
#include "device/cuda/kernels/dynamic.cu"

extern "C" void threads_exchange_dynamic(const void *what)
{
    threads_exchange_dynamic_of(*(const struct kernel_dynamic *)what);
}
