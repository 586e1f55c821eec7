/* SPDX-License-Identifier: Apache-2.0 */
/* What the black box shows of this rank. */
#ifndef TUTTI_EXECUTOR_GPU_RECORD_H
#define TUTTI_EXECUTOR_GPU_RECORD_H

#include "plan/ways.h"
#include "tutti/tutti.h"

struct call;
struct flow;
struct gpu;
struct p2p_item;

/* The executor is made. Whatever fails here leaves the executor without records. */
void record_open(struct gpu *gpu);
void record_close(struct gpu *gpu);
/* A call begins; it has returned, and has its ticket. Between the two: how it is carried. */
void record_call(struct gpu *gpu, const struct call *call);
void record_p2p(struct gpu *gpu, const struct p2p_item *items, int count);
/* The call goes this way: returns what this rank does in its schedule, which is what the black box shows. NULL: it
 * cannot, with a sentence. */
const struct flow *record_way(struct gpu *gpu, enum way way, const struct call *call);
/* Of an exchange: copy engines carry messages of it. */
void record_copies(struct gpu *gpu);
void record_returned(struct gpu *gpu, tutti_result_t result);
/* What it holds itself. */
size_t record_bytes(const struct gpu *gpu);
/* Notes what is over. */
void record_look(struct gpu *gpu);

#endif
