/* SPDX-License-Identifier: Apache-2.0 */
/* In place of the transport over RDMA verbs, where its headers were not to be had. */
#include "base/error.h"
#include "transport/common.h"

static tutti_result_t no_open(const struct transport_ops *ops, const struct transport_owner *owner,
                              struct poller *poller, struct wire_process *self, struct transport **out)
{
    return error_note(TUTTI_INVALID_USAGE, "this build has no transport verbs: it was made without libibverbs-dev");
}

const struct transport_ops transport_verbs = {
    .name = "verbs",
    .caps = TRANSPORT_DATA,
    .max_msg = 4096,
    .open = no_open,
};
