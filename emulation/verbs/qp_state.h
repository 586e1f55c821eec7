/* SPDX-License-Identifier: Apache-2.0 */
/* Which transitions a queue pair may make and which attributes go with them. */
#ifndef VERBS_QP_STATE_H
#define VERBS_QP_STATE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/* What is left of `mask` without attributes that the kernel ignores: those of the half that a queue pair of XRC has
 * not. perftest sets them all. */
int qp_state_heeds(enum ibv_qp_type type, int mask);

/* Whether `mask` has all that the transition needs and nothing that it does not take. */
bool qp_state_allows(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int mask);

#endif
