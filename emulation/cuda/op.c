/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of streams: how long they live, and waiting for their end. */
#include "cuda/stream.h"

#include <stdlib.h>

void op_ref(struct stream_op *op)
{
    op->refs++;
}

void op_unref(struct stream_op *op)
{
    if (!op || --op->refs)
        return;
    for (size_t i = 0; i < op->after_count; i++)
        op_unref(op->after[i]);
    free(op->after);
    work_clear(&op->work);
    free(op);
}

void op_wait(struct stream_op *op)
{
    while (!op->done)
        state_wait();
}
