/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of this name, for the CPU. */
#include "device/cuda/kernels/ring_float.cu"
