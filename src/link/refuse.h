/* SPDX-License-Identifier: Apache-2.0 */
/* The errors of payloads that are refused. */
#ifndef TUTTI_LINK_REFUSE_H
#define TUTTI_LINK_REFUSE_H

#include "link/link.h"

/* Of a transfer that met one of `their_rank` which is of another call, or has another length. Not in the log: the
 * communicator that fails because of it says so there. */
tutti_result_t refuse_call(const struct wire_tag *tag, const struct wire_call *mine, size_t my_length,
                           const struct wire_call *theirs, size_t their_length, uint32_t their_rank);
/* The memory of a payload cannot be read, or be written: neither the peer's fault nor the lane's. */
tutti_result_t refuse_source(const struct link_send *send);
tutti_result_t refuse_target(const struct link_recv *recv);

#endif
