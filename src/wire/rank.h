/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank tells its peers about its GPU and the adapters near it: facts of the rank, as one process may have
 * several ranks. Where it is (host, rack, zone) is a fact of its process. */
#ifndef TUTTI_WIRE_RANK_H
#define TUTTI_WIRE_RANK_H

#include "wire/process.h"

#define WIRE_GPU_BYTES 16
#define WIRE_NO_NIC    0xff

struct rank_fact {
    uint8_t gpu[WIRE_GPU_BYTES]; /* uuid; all 0: it works on host memory, or its GPU is not known */
    char bus_id[16];             /* of the GPU, as in sysfs: 0000:17:00.0; "" where gpu is 0 */
    uint64_t island;             /* GPUs of one host that reach one another by NVLink say the same; 0: not known */
    uint8_t nic[WIRE_DEVICES];   /* numbers of ports in `verbs` of its process, the nearest to the GPU (of host memory:
                                    to its processors) first; WIRE_NO_NIC behind the last */
};

_Static_assert(sizeof(struct rank_fact) == 48, "rank_fact is part of the protocol");

#endif
