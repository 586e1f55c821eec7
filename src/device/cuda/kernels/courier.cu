/* SPDX-License-Identifier: Apache-2.0 */
/* Copies what the host orders. */
#include <courier.cuh>

KERNEL(KERNEL_COURIER_THREADS) tutti_courier(PARAMETER(struct kernel_courier) what)
{
    courier_work(what, [](const struct courier_turn &) {});
}
