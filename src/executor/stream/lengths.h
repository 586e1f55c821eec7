/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with lengths that only GPUs know, in words. */
#ifndef TUTTI_EXECUTOR_STREAM_LENGTHS_H
#define TUTTI_EXECUTOR_STREAM_LENGTHS_H

#include "device/cuda/kernels/kernels.h"

#include <stddef.h>

struct team;

/* What rank `rank` of the team has wrong, as this one finds. */
void lengths_describe(const struct team *team, int rank, const struct kernel_wrong *wrong, char *out, size_t size);

#endif
