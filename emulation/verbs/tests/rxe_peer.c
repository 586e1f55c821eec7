/* SPDX-License-Identifier: Apache-2.0 */
/* What perftest and the pingpongs do not do, against any other implementation. `window`: a memory window of type 2. The
 * client writes through the window and takes it away by SEND with invalidate. The server checks both, and the client's
 * next write must be refused. `atomic` and `flush`: ATOMIC WRITEs, without and with FLUSHes before them, as a writer of
 * a log does it. The server checks every byte. Usage: rxe_peer -p PORT -d DEVICE -g GID-INDEX -o WHAT [SERVER]. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "rxe_peer: line %d: %s\n", __LINE__, #condition);                                          \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define BYTES   8192
#define PSN     77
#define RECORDS 100
#define RECORD  64 /* bytes, and of these the last eight are its number */

/* FLUSH as later <verbs.h> have it: Debian 12's lack its names. */
#define WITH_FLUSH   (1 << 11)
#define ACCESS_FLUSH (1 << 8)
#define WC_FLUSH     8
struct later_qp_ex {
    struct ibv_qp_ex ex;
    void (*wr_flush)(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote, size_t size, uint8_t type, uint8_t level);
};
/* rxe 6.1 hands out the kernel's bit, which programs call IBV_WC_IP_CSUM_OK. */
#define WITH_INV (IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK)

struct card {
    uint64_t address;
    uint32_t qpn, rkey;
    union ibv_gid gid;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static uint8_t *memory;
static int sock, flushes;

static void dial(const char *server, int port)
{
    int listening = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (server) {
        CHECK(inet_pton(AF_INET, server, &at.sin_addr) == 1);
        sock = listening;
        CHECK(connect(sock, (struct sockaddr *)&at, sizeof(at)) == 0);
    } else {
        CHECK(bind(listening, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(listening, 1) == 0);
        sock = accept(listening, NULL, NULL);
        close(listening);
        CHECK(sock >= 0);
    }
}

static void tell(const void *data, size_t size)
{
    CHECK(write(sock, data, size) == (ssize_t)size);
}

static void hear(void *data, size_t size)
{
    CHECK(recv(sock, data, size, MSG_WAITALL) == (ssize_t)size);
}

static void make_qp(bool later)
{
    struct ibv_qp_init_attr_ex attr = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1, .cap = {8, 8, 1, 1, 0}, .pd = pd};
    struct ibv_qp_init_attr plain = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1, .cap = {8, 8, 1, 1, 0}};
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_RDMA_WRITE | (flushes ? WITH_FLUSH : 0);
    CHECK((qp = later ? ibv_create_qp_ex(context, &attr) : ibv_create_qp(pd, &plain)));
}

static void open_device(const char *name)
{
    int count;
    struct ibv_device **list = ibv_get_device_list(&count);
    for (int i = 0; i < count && !context; i++)
        if (!strcmp(ibv_get_device_name(list[i]), name))
            context = ibv_open_device(list[i]);
    CHECK(context);
    CHECK((pd = ibv_alloc_pd(context)));
    CHECK((cq = ibv_create_cq(context, 16, NULL, NULL, 0)));
    CHECK((memory = calloc(1, BYTES)));
    CHECK((mr = ibv_reg_mr(pd, memory, BYTES,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND |
                               (flushes ? ACCESS_FLUSH : 0))));
}

static void join(const struct card *peer, int index)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    attr.qp_access_flags |= flushes ? ACCESS_FLUSH : 0;
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                                .path_mtu = IBV_MTU_1024,
                                .dest_qp_num = peer->qpn,
                                .rq_psn = PSN,
                                .max_dest_rd_atomic = 1,
                                .min_rnr_timer = 12,
                                .ah_attr = {.is_global = 1,
                                            .port_num = 1,
                                            .grh = {.dgid = peer->gid, .sgid_index = (uint8_t)index, .hop_limit = 8}}};
    CHECK(!ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 20, .retry_cnt = 7, .rnr_retry = 7, .sq_psn = PSN, .max_rd_atomic = 1};
    CHECK(!ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC));
}

static struct ibv_wc next(void)
{
    struct ibv_wc wc;
    int n = 0;
    while (!n)
        n = ibv_poll_cq(cq, 1, &wc);
    CHECK(n == 1);
    return wc;
}

static void post(struct ibv_send_wr *wr, enum ibv_wc_status status)
{
    struct ibv_send_wr *bad;
    CHECK(!ibv_post_send(qp, wr, &bad));
    struct ibv_wc wc = next();
    if (wc.status != status)
        fprintf(stderr, "rxe_peer: %s, expected %s\n", ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
    CHECK(wc.status == status);
}

/* The half of the memory that the window opens. */
static void serve(struct card *mine)
{
    struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    struct ibv_recv_wr recv_wr = {.wr_id = 1}, *bad;
    CHECK(mw);
    mine->rkey = ibv_inc_rkey(mw->rkey);
    mine->address = (uintptr_t)memory + BYTES / 2;
    struct ibv_send_wr bind_wr = {.opcode = IBV_WR_BIND_MW,
                                  .bind_mw = {mw, mine->rkey, {mr, mine->address, BYTES / 2, IBV_ACCESS_REMOTE_WRITE}}};
    post(&bind_wr, IBV_WC_SUCCESS);
    CHECK(!ibv_post_recv(qp, &recv_wr, &bad));
    tell(mine, sizeof(*mine));
    struct ibv_wc wc = next();
    CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
    CHECK(wc.wc_flags & WITH_INV && wc.invalidated_rkey == mine->rkey);
    for (int i = 0; i < BYTES; i++)
        CHECK(memory[i] == (i < BYTES / 2 ? 0 : (uint8_t)(i * 7)));
    tell("", 1);
    char byte;
    hear(&byte, 1);
    CHECK(memory[BYTES / 2] == (uint8_t)(BYTES / 2 * 7)); /* what was refused is not there */
    CHECK(!ibv_destroy_qp(qp) && !ibv_dealloc_mw(mw));
}

static void ask(void)
{
    struct card window;
    char byte;
    hear(&window, sizeof(window));
    for (int i = 0; i < BYTES; i++)
        memory[i] = (uint8_t)(i * 7);
    struct ibv_sge half = {(uintptr_t)memory + BYTES / 2, BYTES / 2, mr->lkey}, one = {(uintptr_t)memory, 1, mr->lkey};
    struct ibv_send_wr write_wr = {
        .sg_list = &half, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {window.address, window.rkey}};
    struct ibv_send_wr send_wr = {.opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = window.rkey};
    post(&write_wr, IBV_WC_SUCCESS);
    post(&send_wr, IBV_WC_SUCCESS);
    hear(&byte, 1);
    write_wr.sg_list = &one;
    post(&write_wr, IBV_WC_REM_ACCESS_ERR);
    tell("", 1);
}

static uint64_t number_of(int record)
{
    return 0x0102030405060708u * (unsigned)(record + 1);
}

static void serve_log(struct card *mine)
{
    char byte;
    mine->rkey = mr->rkey;
    mine->address = (uintptr_t)memory;
    tell(mine, sizeof(*mine));
    hear(&byte, 1);
    for (int i = 0; i < BYTES; i++) {
        uint64_t number = number_of(i / RECORD);
        uint8_t wanted = i % RECORD < RECORD - 8 ? (uint8_t)(i * 7) : ((uint8_t *)&number)[i % 8];
        CHECK(memory[i] == (i < RECORDS * RECORD ? wanted : 0));
    }
    tell("", 1);
    CHECK(!ibv_destroy_qp(qp));
}

static void done(struct ibv_qp_ex *ex, int opcode)
{
    CHECK(!ibv_wr_complete(ex));
    struct ibv_wc wc = next();
    if (wc.status)
        fprintf(stderr, "rxe_peer: operation %d: %s\n", opcode, ibv_wc_status_str(wc.status));
    CHECK(wc.status == IBV_WC_SUCCESS && (int)wc.opcode == opcode);
}

/* Each record is written, flushed, and then gets its number at once. */
static void write_log(void)
{
    struct card log;
    char byte;
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
    hear(&log, sizeof(log));
    for (int i = 0; i < BYTES; i++)
        memory[i] = (uint8_t)(i * 7);
    for (int i = 0; i < RECORDS; i++) {
        uint64_t at = log.address + (uint64_t)i * RECORD, number = number_of(i);
        ibv_wr_start(ex);
        ibv_wr_rdma_write(ex, log.rkey, at);
        ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)memory + (size_t)i * RECORD, RECORD - 8);
        done(ex, IBV_WC_RDMA_WRITE);
        if (flushes) {
            ibv_wr_start(ex);
            ((struct later_qp_ex *)ex)->wr_flush(ex, log.rkey, at, RECORD - 8, 1, (uint8_t)(i % 2));
            done(ex, WC_FLUSH);
        }
        ibv_wr_start(ex);
        ibv_wr_atomic_write(ex, log.rkey, at + RECORD - 8, &number);
        done(ex, IBV_WC_ATOMIC_WRITE);
    }
    tell("", 1);
    hear(&byte, 1);
}

int main(int argc, char **argv)
{
    const char *device = "", *server = NULL, *what = "window";
    int port = 18515, index = 0;
    for (int option; (option = getopt(argc, argv, "p:d:g:o:")) != -1;) {
        CHECK(option != '?');
        port = option == 'p' ? atoi(optarg) : port;
        index = option == 'g' ? atoi(optarg) : index;
        device = option == 'd' ? optarg : device;
        what = option == 'o' ? optarg : what;
    }
    bool later = strcmp(what, "window") != 0;
    flushes = !strcmp(what, "flush");
    server = argv[optind];
    open_device(device);
    make_qp(later);
    dial(server, port);
    struct card mine = {.qpn = qp->qp_num}, theirs;
    CHECK(!ibv_query_gid(context, 1, index, &mine.gid));
    tell(&mine, sizeof(mine));
    hear(&theirs, sizeof(theirs));
    join(&theirs, index);
    char byte;
    tell("", 1);
    hear(&byte, 1); /* both can receive */
    if (server)
        later ? write_log() : ask();
    else
        later ? serve_log(&mine) : serve(&mine);
    printf("%s: as it should be\n", what);
    return 0;
}
