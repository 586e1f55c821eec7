/* SPDX-License-Identifier: Apache-2.0 */
/* Streams beside users' streams. */
#ifndef TUTTI_EXECUTOR_STREAM_BESIDE_H
#define TUTTI_EXECUTOR_STREAM_BESIDE_H

#include "device/cuda/driver.h"
#include "tutti/tutti.h"

struct stream_base;

/* A stream of `owner` beside users' streams, if there is none yet. It is waited for and destroyed. */
tutti_result_t beside_make(const struct stream_base *owner, CUstream *side);
void beside_end(const struct stream_base *owner, CUstream side);
tutti_result_t beside_wait_all(const struct stream_base *owner, CUstream side);
/* Where a stream stands; the executor's context is current, as the default streams are the current context's. */
tutti_result_t beside_mark(const struct stream_base *base, CUstream stream);
/* As beside_make(); it goes on from there. `owner`'s context is current. */
tutti_result_t beside_branch(const struct stream_base *base, const struct stream_base *owner, CUstream *side);

#endif
