/* SPDX-License-Identifier: Apache-2.0 */
/* A queue pair that is joined to itself, and reads a GPU's memory. Reads end in the order in which they begin. */
#include "transport/verbs/flush.h"
#include "base/error.h"
#include "transport/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER  4096 /* bytes: a page */
#define PSN     1
#define TIMEOUT 14 /* 67 ms: no packet leaves the adapter */
#define RETRIES 7

static tutti_result_t flush_complain(const struct verbs_device *device, const char *what, int error)
{
    return error_note(TUTTI_SYSTEM_ERROR, "RDMA device %s: cannot %s for flushes of GPU memory: %s", device->name, what,
                      strerror(error > 0 ? error : errno));
}

static struct ibv_ah_attr way_to_self(const struct verbs_device *device)
{
    struct ibv_ah_attr way = {.port_num = device->port, .dlid = device->lid};
    way.is_global = device->link_layer == IBV_LINK_LAYER_ETHERNET;
    if (way.is_global) {
        memcpy(&way.grh.dgid, &device->gid.gid, sizeof way.grh.dgid);
        way.grh.sgid_index = (uint8_t)device->gid.gid_index;
        way.grh.hop_limit = 255;
    }
    return way;
}

static int flush_join(const struct verbs_device *device, struct ibv_qp *pair)
{
    const struct verbs_library *library = device->owner->library;
    struct ibv_qp_attr to = {
        .qp_state = IBV_QPS_INIT, .port_num = device->port, .qp_access_flags = IBV_ACCESS_REMOTE_READ};
    int error = library->modify_qp(pair, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    to = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                              .dest_qp_num = pair->qp_num,
                              .rq_psn = PSN,
                              .ah_attr = way_to_self(device),
                              .path_mtu = (enum ibv_mtu)device->mtu,
                              .max_dest_rd_atomic = 1,
                              .min_rnr_timer = 12};
    if (!error)
        error = library->modify_qp(pair, &to,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    to = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                              .sq_psn = PSN,
                              .max_rd_atomic = 1,
                              .timeout = TIMEOUT,
                              .retry_cnt = RETRIES,
                              .rnr_retry = RETRIES};
    if (!error)
        error = library->modify_qp(pair, &to,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                       IBV_QP_MAX_QP_RD_ATOMIC);
    return error;
}

tutti_result_t verbs_flush_open(struct verbs_device *device)
{
    const struct verbs_library *library = device->owner->library;
    struct verbs_flush *flush = &device->open.flush;
    struct ibv_qp_init_attr how = {.send_cq = device->open.cq, .recv_cq = device->open.cq, .qp_type = IBV_QPT_RC};
    how.cap = (struct ibv_qp_cap){.max_send_wr = VERBS_FLUSHES, .max_send_sge = 1};
    if (flush->pair)
        return TUTTI_SUCCESS;
    int error = verbs_buffers_open(library, device->open.pd, ANSWER, &flush->answer);
    if (error)
        return flush_complain(device, "register memory", error);
    if (!(flush->pair = library->create_qp(device->open.pd, &how)))
        error = errno ? errno : ENOMEM;
    if (!error)
        error = flush_join(device, flush->pair);
    if (!error)
        return TUTTI_SUCCESS;
    verbs_flush_close(library, flush);
    return flush_complain(device, "join a queue pair to itself", error);
}

static int flush_post(struct verbs_device *device)
{
    struct verbs_flush *flush = &device->open.flush;
    int error = 0;
    while (!error && flush->posted < flush->count && flush->posted < VERBS_FLUSHES) {
        const struct verbs_read *read = &flush->reads[(flush->first + flush->posted) % flush->room];
        struct ibv_sge sge = {(uintptr_t)flush->answer.memory, 1, flush->answer.registered->lkey};
        struct ibv_send_wr wr = {.wr_id = VERBS_FLUSH,
                                 .sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_RDMA_READ,
                                 .send_flags = IBV_SEND_SIGNALED,
                                 .wr.rdma = {read->address, read->key}};
        struct ibv_send_wr *bad;
        error = flush->pair->context->ops.post_send(flush->pair, &wr, &bad);
        flush->posted += !error;
    }
    return error < 0 ? -error : error;
}

static bool flush_grow(struct verbs_flush *flush)
{
    unsigned more = flush->room ? 2 * flush->room : VERBS_FLUSHES;
    struct verbs_read *reads = malloc(more * sizeof *reads);
    if (!reads)
        return false;
    for (unsigned i = 0; i < flush->count; i++)
        reads[i] = flush->reads[(flush->first + i) % flush->room];
    free(flush->reads);
    flush->reads = reads;
    flush->room = more;
    flush->first = 0;
    return true;
}

tutti_result_t verbs_flush_read(struct verbs_device *device, uint64_t address, uint32_t key, uint64_t token)
{
    struct verbs_flush *flush = &device->open.flush;
    tutti_result_t result = verbs_flush_open(device);
    if (result != TUTTI_SUCCESS)
        return result;
    if (flush->count == flush->room && !flush_grow(flush))
        return flush_complain(device, "find memory", ENOMEM);
    flush->reads[(flush->first + flush->count++) % flush->room] = (struct verbs_read){address, token, key};
    int error = flush_post(device);
    return error ? flush_complain(device, "post a read", error) : TUTTI_SUCCESS;
}

bool verbs_flush_ended(struct verbs_device *device, uint64_t *token)
{
    struct verbs_flush *flush = &device->open.flush;
    if (!flush->posted)
        return false;
    *token = flush->reads[flush->first].token;
    flush->first = (flush->first + 1) % flush->room;
    flush->count--;
    flush->posted--;
    flush_post(device); /* what cannot be posted now is tried again with the next one */
    return true;
}

int verbs_flush_close(const struct verbs_library *library, struct verbs_flush *flush)
{
    int error = flush->pair ? library->destroy_qp(flush->pair) : 0;
    int left = verbs_buffers_forget(library, &flush->answer, error != 0);
    verbs_buffers_free(&flush->answer);
    free(flush->reads);
    *flush = (struct verbs_flush){0};
    return error ? error : left;
}
