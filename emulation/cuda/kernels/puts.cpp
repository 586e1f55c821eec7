/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of this name, for the CPU. */
#include "device/cuda/kernels/puts.cu"
