/* SPDX-License-Identifier: Apache-2.0 */
/* Which transitions a queue pair may make and which attributes go with them. */
#ifndef VERBS_QP_STATE_H
#define VERBS_QP_STATE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/* Whether `mask` has all that the transition needs and nothing that it does not take. */
bool qp_state_allows(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int mask);

#endif
