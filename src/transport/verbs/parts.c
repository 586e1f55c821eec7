/* SPDX-License-Identifier: Apache-2.0 */
/* What is opened for one port of an adapter. */
#include "transport/verbs/parts.h"

#include "base/error.h"
#include "base/log.h"
#include "transport/verbs/protocol.h"

#include <errno.h>
#include <string.h>

tutti_result_t verbs_make_parts(const struct verbs_library *library, const char *name, struct verbs_parts *parts)
{
    const char *what = NULL;
    if (!(parts->pd = library->alloc_pd(parts->context)))
        what = "protection domain";
    else if (!(parts->channel = library->create_comp_channel(parts->context)))
        what = "completion channel";
    else if (!(parts->cq = library->create_cq(parts->context, VERBS_ROOM_FIRST, NULL, parts->channel, 0)))
        what = "completion queue";
    if (what)
        return error_set(TUTTI_SYSTEM_ERROR, "cannot make a %s of RDMA device %s: %s", what, name, strerror(errno));
    if (!verbs_shared_open(library, parts->context, parts->pd, &parts->shared))
        log_info("RDMA device %s has no shared receives: each lane has its own", name);
    return TUTTI_SUCCESS;
}

void verbs_close_parts(const struct verbs_library *library, const char *name, struct verbs_parts *parts)
{
    int error = verbs_flush_close(library, &parts->flush);
    error |= verbs_shared_close(&parts->shared);
    if (parts->cq)
        error |= library->destroy_cq(parts->cq);
    if (parts->channel)
        error |= library->destroy_comp_channel(parts->channel);
    if (parts->pd)
        error |= library->dealloc_pd(parts->pd);
    if (parts->context)
        error |= library->close_device(parts->context);
    if (error)
        log_warn("RDMA device %s was not closed in good order", name);
    *parts = (struct verbs_parts){0};
}
