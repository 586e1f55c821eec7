/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts outlive their devices until their last object has gone. */
#include "verbs/object.h"

#include <stdlib.h>

void context_put(struct rdma_context *context)
{
    if (--context->objects == 0 && context->closed)
        free(context);
}
