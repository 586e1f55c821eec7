/* SPDX-License-Identifier: Apache-2.0 */
/* ncclConfig_t of any size and version. */
#ifndef TUTTI_NCCL_CONFIG_H
#define TUTTI_NCCL_CONFIG_H

#include "nccl/names.h"

struct comm_config {
    int blocking;     /* 0, 1, or NCCL_CONFIG_UNDEF_INT */
    const char *name; /* NULL: none */
    int blocks;       /* most of a reduction; 0: nothing is said */
    int policy;       /* TUTTI_POLICY_..., or -1 */
};

/* user may be NULL: everything undefined. */
ncclResult_t config_read(const void *user, struct comm_config *out);
/* What holds: the environment, else `wanted`, else `inherited`. */
int config_blocking(int wanted, int inherited);

#endif
