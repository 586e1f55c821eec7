/* SPDX-License-Identifier: Apache-2.0 */
/* Doing, copying and clearing a piece of work, as its kind has it. */
#include "cuda/work.h"
#include "cuda/private.h"

bool work_clone(struct work *to, const struct work *from)
{
    *to = *from;
    return !from->ops || !from->ops->clone || from->ops->clone(to, from);
}

void work_clear(struct work *work)
{
    if (work->ops && work->ops->clear)
        work->ops->clear(work);
    *work = (struct work){.kind = WORK_EMPTY};
}

void work_run(const struct work *work)
{
    config_jitter();
    if (work->context->error && work->kind != WORK_FREE)
        return;
    if (work->ops && work->ops->run)
        work->ops->run(work);
}

static void host_run(const struct work *work)
{
    private_allow(false); /* it is the program's */
    state_in_callback(true, true);
    work->host.fn(work->host.userData);
    state_in_callback(true, false);
    private_allow(true);
}

const struct work_ops host_work = {.run = host_run};
