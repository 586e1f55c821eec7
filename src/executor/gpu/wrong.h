/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels find wrong in lengths that only GPUs know. */
#ifndef TUTTI_EXECUTOR_GPU_WRONG_H
#define TUTTI_EXECUTOR_GPU_WRONG_H

#include <stdint.h>

struct gpu;

/* A kernel that reads lengths may be under way from now on. */
void wrong_expect(struct gpu *gpu);
/* Fails the team if a kernel has found something. */
void wrong_notice(struct gpu *gpu);
/* For the helper, which notices: microseconds until it is to look again; 0: no kernel reads lengths. */
uint64_t wrong_watch(const struct gpu *gpu);

#endif
