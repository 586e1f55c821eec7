/* SPDX-License-Identifier: Apache-2.0 */
/* How communicators end. */
#ifndef TUTTI_NCCL_LIFE_H
#define TUTTI_NCCL_LIFE_H

#include "nccl/handle.h"

ncclResult_t life_finalize(struct ncclComm *handle);
ncclResult_t life_revoked(struct ncclComm *handle); /* leaves it */
/* After handle_close. */
ncclResult_t life_destroy(struct ncclComm *handle);

#endif
