/* SPDX-License-Identifier: Apache-2.0 */
/* What is opened for one port of an adapter. */
#ifndef TUTTI_TRANSPORT_VERBS_PARTS_H
#define TUTTI_TRANSPORT_VERBS_PARTS_H

#include "transport/verbs/buffers.h"
#include "transport/verbs/flush.h"

/* What is opened for one port of an adapter. */
struct verbs_parts {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct verbs_shared shared;
    struct verbs_flush flush;
};

/* Of a device that is open: a protection domain, a completion channel and a queue, and shared receives if it has them.
 * What could be made is in `parts`. */
tutti_result_t verbs_make_parts(const struct verbs_library *library, const char *name, struct verbs_parts *parts);
/* In the order opposite to that of making. What cannot be given back stays until the process ends. */
void verbs_close_parts(const struct verbs_library *library, const char *name, struct verbs_parts *parts);

#endif
