/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel for exchanges, of blocks of several threads. */
#define tutti_exchange     threads_exchange_of /* ones of these names are there already */
#define tutti_messages     threads_messages_of
#define tutti_gather_words threads_gather_words_of
#include "device/cuda/kernels/exchange.cu"

extern "C" void threads_exchange(const void *what)
{
    threads_exchange_of(*(const struct kernel_exchange *)what);
}

extern "C" void threads_messages(const void *what)
{
    threads_messages_of(*(const struct kernel_messages *)what);
}
