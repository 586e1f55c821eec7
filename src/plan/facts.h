/* SPDX-License-Identifier: Apache-2.0 */
/* From what the ranks of a communicator tell one another to the facts that ways are chosen by. */
#ifndef TUTTI_PLAN_FACTS_H
#define TUTTI_PLAN_FACTS_H

#include "plan/plan.h"
#include "wire/process.h"

/* What each rank tells every other. */
struct facts_peer {
    uint8_t process[WIRE_UUID_BYTES];
    uint32_t reaches; /* bits of ranks whose GPUs it can write to, its own among them */
    uint32_t whole;   /* of the others, those that what it stores as a line reaches as a whole */
    uint32_t wants_host;
    uint32_t refused; /* it has tried to map the others' windows, and could not */
    uint32_t processors, few_queues;
    uint32_t blocks, policy; /* as ordered */
};

/* What the parameters say. All ranks have the same. */
struct facts_settings {
    bool copies;           /* of large messages by copy engine */
    bool copies_processes; /* also between processes */
    bool through_scratch;  /* GPUs of one process do not touch one another's user memory */
    unsigned protocols, blocks_least;
};

struct facts_settings facts_settings(void);

/* Nothing else goes in, and no rank is special: so all ranks come to the same facts. Those of a call stay zero. */
struct plan_facts facts_of(const struct facts_peer *peers, int nranks, const struct facts_settings *settings);

#endif
