/* SPDX-License-Identifier: Apache-2.0 */
/* The table of queue pair transitions. Source: InfiniBand specification volume 1, section 11.2.5.2, and
 * ibv_modify_qp(3). */
#include "verbs/qp_state.h"

#include <stddef.h>

#define RC (1u << IBV_QPT_RC)
#define UC (1u << IBV_QPT_UC)
#define UD (1u << IBV_QPT_UD)
#define XS (1u << IBV_QPT_XRC_SEND)
#define XR (1u << IBV_QPT_XRC_RECV)

#define INIT_CONNECTED (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define INIT_DATAGRAM  (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
#define RTR_CONNECTED  (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define ALWAYS         (IBV_QP_STATE | IBV_QP_CUR_STATE)
#define RETRIES        (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY)
#define RUN_RC         (IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_MIN_RNR_TIMER)
#define RUN_UC         (IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)
#define MOVE_RC                                                                                                        \
    (IBV_QP_AV | RETRIES | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_PKEY_INDEX | IBV_QP_PORT |     \
     RUN_RC)

static const struct transition {
    unsigned types;
    enum ibv_qp_state from, to;
    int required, optional;
} transitions[] = {
    {RC | UC | XS | XR, IBV_QPS_RESET, IBV_QPS_INIT, INIT_CONNECTED, 0},
    {UD, IBV_QPS_RESET, IBV_QPS_INIT, INIT_DATAGRAM, 0},
    {RC | UC | XS | XR, IBV_QPS_INIT, IBV_QPS_INIT, 0, INIT_CONNECTED},
    {UD, IBV_QPS_INIT, IBV_QPS_INIT, 0, INIT_DATAGRAM},
    {RC | XR, IBV_QPS_INIT, IBV_QPS_RTR, RTR_CONNECTED | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {UC | XS, IBV_QPS_INIT, IBV_QPS_RTR, RTR_CONNECTED, IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {UD, IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {RC, IBV_QPS_RTR, IBV_QPS_RTS, RETRIES | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC, RUN_RC},
    {XS, IBV_QPS_RTR, IBV_QPS_RTS, RETRIES | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC, RUN_UC},
    {XR, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_SQ_PSN, RUN_RC},
    {UC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, RUN_UC},
    {UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_QKEY},
    {RC | XR, IBV_QPS_RTS, IBV_QPS_RTS, 0, RUN_RC},
    {UC | XS, IBV_QPS_RTS, IBV_QPS_RTS, 0, RUN_UC},
    {UD, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_QKEY},
    {RC | UC | UD | XS | XR, IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {RC | XR, IBV_QPS_SQD, IBV_QPS_RTS, 0, RUN_RC},
    {UC | XS, IBV_QPS_SQD, IBV_QPS_RTS, 0, RUN_UC},
    {UD, IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_QKEY},
    {RC | XS | XR, IBV_QPS_SQD, IBV_QPS_SQD, 0, MOVE_RC},
    {UC, IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_AV | IBV_QP_PKEY_INDEX | RUN_UC},
    {UD, IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {UC, IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS},
    {UD, IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_QKEY},
};

int qp_state_heeds(enum ibv_qp_type type, int mask)
{
    if (type == IBV_QPT_XRC_SEND)
        return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (type == IBV_QPT_XRC_RECV)
        return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
    return mask;
}

bool qp_state_allows(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
        return !(mask & ~ALWAYS);
    for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
        const struct transition *t = &transitions[i];
        if (!(t->types & 1u << type) || t->from != from || t->to != to)
            continue;
        return (mask & t->required) == t->required && !(mask & ~(t->required | t->optional | ALWAYS));
    }
    return false;
}
