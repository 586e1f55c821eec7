/* SPDX-License-Identifier: Apache-2.0 */
/* Randomised peer test: two processes, all operations of a reliable queue pair, random sizes and lists, every byte
 * checked. Faults come from SOFTVERBS_FAULT. Usage: peer [SECONDS [SEED]]. Exit 77: no packet socket or no loopback
 * device here. */
#include "verbs/tests/peer.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "peer %d round %u: %s:%d: %s (errno %s)\n", me, now_round, __FILE__, __LINE__, #condition, \
                    strerror(errno));                                                                                  \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)
#define ROUNDS_A_CONNECTION 40
#define SOURCE_SIZE         (4 * SLOT_SIZE)

struct card {
    uint32_t qpn, psn, rkey_source, rkey_in, rkey_words;
    uint64_t source, in, words;
    union ibv_gid gid;
};

static int me, sock;
static unsigned now_round;
static uint8_t *out, *in, *landing; /* what is sent, what the peer writes, where reads land */
static uint64_t *source, *wanted;   /* what the peer reads, and what its own holds */
static uint64_t *words, *shadow, *results;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr_out, *mr_source, *mr_in, *mr_landing, *mr_words, *mr_results;
static struct ibv_cq *send_cq, *recv_cq;
static struct ibv_comp_channel *channel;
static struct ibv_srq *srq;
static struct ibv_qp *qp;
static struct card mine, theirs;

static uint8_t pattern(unsigned round, int slot, int side, uint32_t at)
{
    return (uint8_t)((at * 131u) ^ (at >> 8) ^ (round * 7u) ^ (unsigned)slot * 29u ^ (unsigned)side * 101u);
}

static void exchange(const void *give, void *take, size_t size)
{
    CHECK(write(sock, give, size) == (ssize_t)size);
    CHECK(recv(sock, take, size, MSG_WAITALL) == (ssize_t)size);
}

/* The queries take the emulator's lock: what its thread does for the peer is ordered after what was done before the
 * barrier, and before what follows it. */
static void barrier(void)
{
    unsigned theirs_round = 0;
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
    exchange(&now_round, &theirs_round, sizeof(now_round));
    CHECK(theirs_round == now_round && !ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
}

static int open_loopback(void)
{
    int n;
    struct ibv_device **list = ibv_get_device_list(&n);
    for (int i = 0; list && i < n; i++)
        if (!strcmp(ibv_get_device_name(list[i]), "soft_lo"))
            context = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    if (!context)
        fprintf(stderr, "verbs_peer: SKIPPED: soft_lo: %s\n", strerror(errno));
    return context ? 0 : 77;
}

static void setup(void)
{
    int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    size_t size = (size_t)SLOTS * SLOT_SIZE;
    out = malloc(size);
    in = malloc(size);
    landing = malloc(size);
    source = malloc(SOURCE_SIZE);
    wanted = malloc(SOURCE_SIZE);
    words = calloc(SLOTS, 8);
    shadow = calloc(SLOTS, 8);
    results = calloc(SLOTS, 8);
    CHECK(out && in && landing && source && wanted && words && shadow && results);
    CHECK((pd = ibv_alloc_pd(context)));
    CHECK((mr_out = ibv_reg_mr(pd, out, size, 0)));
    CHECK((mr_source = ibv_reg_mr(pd, source, SOURCE_SIZE, IBV_ACCESS_REMOTE_READ)));
    CHECK((mr_in = ibv_reg_mr(pd, in, size, all)));
    CHECK((mr_landing = ibv_reg_mr(pd, landing, size, IBV_ACCESS_LOCAL_WRITE)));
    CHECK((mr_words = ibv_reg_mr(pd, words, SLOTS * 8, all)));
    CHECK((mr_results = ibv_reg_mr(pd, results, SLOTS * 8, IBV_ACCESS_LOCAL_WRITE)));
    CHECK((channel = ibv_create_comp_channel(context)));
    struct pollfd quiet[] = {{channel->fd, POLLIN | POLLOUT, 0}, {context->async_fd, POLLIN | POLLOUT, 0}};
    CHECK(poll(quiet, 2, 0) == 0); /* a program that waits for both does not spin */
    CHECK((send_cq = ibv_create_cq(context, 4 * SLOTS, NULL, channel, 0)));
    CHECK((recv_cq = ibv_create_cq(context, 4 * SLOTS, NULL, channel, 0)));
}

static void to_ready(const uint64_t *draws)
{
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    init.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    CHECK(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_256 + draws[0] % 5,
        .dest_qp_num = theirs.qpn,
        .rq_psn = theirs.psn,
        .max_dest_rd_atomic = 16,
        .min_rnr_timer = 1,
        .ah_attr = {.is_global = 1,
                    .port_num = 1,
                    .grh = {.dgid = theirs.gid, .flow_label = (uint32_t)draws[1], .hop_limit = 1}},
    };
    CHECK(!ibv_modify_qp(qp, &rtr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 16, .retry_cnt = 7, .rnr_retry = 7};
    rts.sq_psn = mine.psn;
    rts.max_rd_atomic = 1 + draws[2] % 16;
    CHECK(!ibv_modify_qp(qp, &rts,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC));
}

/* A READ request that the network has copied is executed when the copy comes, be it rounds after the requester's
 * completion; its answer is then dropped. So what may be read keeps its content while the queue pair lives: each READ
 * takes another part of it. */
static void fill_source(uint64_t *to, int side)
{
    uint64_t state = (uint64_t)now_round << 1 | (unsigned)side;
    for (size_t i = 0; i < SOURCE_SIZE / sizeof(*to); i++)
        to[i] = peer_random(&state);
}

static void connect_peers(uint64_t *state)
{
    fill_source(source, me);
    fill_source(wanted, !me);
    uint64_t draws[4] = {peer_random(state), peer_random(state), peer_random(state), peer_random(state)};
    struct ibv_srq_init_attr shared = {.attr = {.max_wr = 4 * SLOTS, .max_sge = PIECES}};
    struct ibv_qp_init_attr init = {
        .send_cq = send_cq,
        .recv_cq = recv_cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 2 * SLOTS,
                .max_recv_wr = 2 * SLOTS,
                .max_send_sge = PIECES,
                .max_recv_sge = PIECES,
                .max_inline_data = 256},
    };
    if (draws[3] & 1)
        CHECK((srq = ibv_create_srq(pd, &shared)));
    init.srq = srq;
    CHECK((qp = ibv_create_qp(pd, &init)));
    mine = (struct card){
        .qpn = qp->qp_num, .rkey_source = mr_source->rkey, .rkey_in = mr_in->rkey, .rkey_words = mr_words->rkey};
    mine.psn = (uint32_t)(draws[1] >> 32 ^ (uint32_t)me * 77777u) & 0xffffff;
    if (draws[2] & 0x100)
        mine.psn = 0xfffff0; /* wraps soon */
    mine.source = (uintptr_t)source;
    mine.in = (uintptr_t)in;
    mine.words = (uintptr_t)words;
    CHECK(!ibv_query_gid(context, 1, 0, &mine.gid));
    exchange(&mine, &theirs, sizeof(mine));
    to_ready(draws);
    barrier();
}

static void disconnect(void)
{
    CHECK(!ibv_destroy_qp(qp));
    if (srq)
        CHECK(!ibv_destroy_srq(srq));
    srq = NULL;
}

/* What `side` does in this round; both processes draw the same. */
static int make_plan(struct plan *plan, uint64_t seed, int side)
{
    uint64_t state = seed ^ (uint64_t)now_round << 20 ^ (uint64_t)side << 60;
    int n = 1 + (int)(peer_random(&state) % SLOTS);
    for (int i = 0; i < n; i++) {
        uint64_t a = peer_random(&state), b = peer_random(&state);
        static const uint32_t limits[] = {1, 64, 1024, 5000, 20000, SLOT_SIZE};
        plan[i].kind = (enum plan_kind)(a % PLAN_KINDS);
        plan[i].size = (uint32_t)((a >> 8) % limits[(a >> 40) % 6] + (a >> 48 & 1));
        plan[i].pieces = 1 + (int)(b % PIECES);
        plan[i].landing = 1 + (int)(b >> 8) % PIECES;
        plan[i].landing = plan[i].landing < 1 ? 1 : plan[i].landing;
        plan[i].signaled = (b >> 16 & 3) || i + 1 == n;
        plan[i].fenced = !(b >> 20 & 15);
        plan[i].inlined = plan[i].size <= 256 && (b >> 24 & 1) && plan[i].kind <= PLAN_WRITE_IMM;
        plan[i].operand = peer_random(&state);
    }
    return n;
}

static bool takes_receive(const struct plan *plan)
{
    return plan->kind == PLAN_SEND || plan->kind == PLAN_SEND_IMM || plan->kind == PLAN_WRITE_IMM;
}

static int cut(struct ibv_sge *list, uint8_t *at, uint32_t size, uint32_t lkey, int pieces)
{
    uint32_t done = 0;
    for (int i = 0; i < pieces; i++) {
        uint32_t part = i + 1 == pieces ? size - done : (size - done) / (uint32_t)(i + 2);
        list[i] = (struct ibv_sge){(uintptr_t)at + done, part, lkey};
        done += part;
    }
    return pieces;
}

static int post_receives(const struct plan *plan, int n)
{
    int posted = 0;
    for (int i = 0; i < n; i++) {
        struct ibv_sge list[PIECES];
        struct ibv_recv_wr wr = {.wr_id = (uint64_t)i, .sg_list = list}, *bad;
        if (!takes_receive(&plan[i]))
            continue;
        wr.num_sge = plan[i].kind == PLAN_WRITE_IMM
                         ? 0
                         : cut(list, in + (size_t)i * SLOT_SIZE, plan[i].size, mr_in->lkey, plan[i].landing);
        CHECK(!(srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad)));
        posted++;
    }
    return posted;
}

static uint32_t source_offset(const struct plan *plan)
{
    return (uint32_t)(plan->operand % (SOURCE_SIZE - plan->size));
}

static void set_remote(struct ibv_send_wr *wr, const struct plan *plan, int slot)
{
    uint64_t offset = (uint64_t)slot * SLOT_SIZE;
    switch (plan->kind) {
    case PLAN_SEND:
    case PLAN_SEND_IMM:
        wr->opcode = plan->kind == PLAN_SEND ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
        break;
    case PLAN_WRITE:
    case PLAN_WRITE_IMM:
        wr->opcode = plan->kind == PLAN_WRITE ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM;
        wr->wr.rdma.remote_addr = theirs.in + offset;
        wr->wr.rdma.rkey = theirs.rkey_in;
        break;
    case PLAN_READ:
        wr->opcode = IBV_WR_RDMA_READ;
        wr->wr.rdma.remote_addr = theirs.source + source_offset(plan);
        wr->wr.rdma.rkey = theirs.rkey_source;
        break;
    default:
        wr->opcode = plan->kind == PLAN_ADD ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
        wr->wr.atomic.remote_addr = theirs.words + (uint64_t)slot * 8;
        wr->wr.atomic.rkey = theirs.rkey_words;
        wr->wr.atomic.compare_add = plan->kind == PLAN_ADD ? plan->operand
                                    : plan->operand & 1    ? shadow[slot]
                                                           : ~shadow[slot];
        wr->wr.atomic.swap = plan->operand;
    }
}

static void post_one(const struct plan *plan, int slot)
{
    struct ibv_sge list[PIECES];
    struct ibv_send_wr wr = {.wr_id = (uint64_t)slot, .sg_list = list, .imm_data = (uint32_t)plan->operand}, *bad;
    if (plan->kind == PLAN_READ)
        wr.num_sge = cut(list, landing + (size_t)slot * SLOT_SIZE, plan->size, mr_landing->lkey, plan->pieces);
    else if (plan->kind >= PLAN_ADD)
        wr.num_sge = cut(list, (uint8_t *)(results + slot), 8, mr_results->lkey, 1);
    else
        wr.num_sge = cut(list, out + (size_t)slot * SLOT_SIZE, plan->size, mr_out->lkey, plan->pieces);
    set_remote(&wr, plan, slot);
    wr.send_flags = (plan->signaled ? IBV_SEND_SIGNALED : 0) | (plan->inlined ? IBV_SEND_INLINE : 0) |
                    (plan->fenced ? IBV_SEND_FENCE : 0);
    CHECK(!ibv_post_send(qp, &wr, &bad));
}

/* Completions of a queue must come in order, each a success. */
static void take(struct ibv_cq *cq, const struct plan *plan, int n, int *at, int want, bool receive)
{
    struct ibv_wc wc[8];
    int got = ibv_poll_cq(cq, want < 8 ? want : 8, wc);
    CHECK(got >= 0);
    for (int i = 0; i < got; i++, ++*at) {
        while (*at < n && !(receive ? takes_receive(&plan[*at]) : plan[*at].signaled))
            ++*at;
        if (wc[i].status != IBV_WC_SUCCESS)
            fprintf(stderr, "peer %d: %s\n", me, ibv_wc_status_str(wc[i].status));
        CHECK(wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id == (uint64_t)*at && wc[i].qp_num == qp->qp_num);
        if (!receive)
            continue;
        bool imm = plan[*at].kind != PLAN_SEND;
        CHECK(wc[i].byte_len == plan[*at].size && !!(wc[i].wc_flags & IBV_WC_WITH_IMM) == imm);
        CHECK(!imm || wc[i].imm_data == (uint32_t)plan[*at].operand);
    }
}

static int count_of(const struct plan *plan, int n, bool receive)
{
    int total = 0;
    for (int i = 0; i < n; i++)
        total += receive ? takes_receive(&plan[i]) : plan[i].signaled;
    return total;
}

static int done_of(const struct plan *plan, int at, bool receive)
{
    return count_of(plan, at, receive);
}

/* Sleeps in every third round, to test events. */
static void sleep_for_event(void)
{
    struct ibv_cq *cq;
    void *arg;
    CHECK(!ibv_get_cq_event(channel, &cq, &arg));
    ibv_ack_cq_events(cq, 1);
}

static void wait_all(const struct plan *own, int n, const struct plan *peer, int m)
{
    int sent = 0, received = 0, sends = count_of(own, n, false), receives = count_of(peer, m, true);
    struct pollfd link = {.fd = sock, .events = POLLRDHUP};
    unsigned turns = 0;
    while (done_of(own, sent, false) < sends || done_of(peer, received, true) < receives) {
        bool sleeps = now_round % 3 == 0;
        CHECK(++turns % 4096 || poll(&link, 1, 0) <= 0 ||
              !(link.revents & (POLLRDHUP | POLLHUP))); /* the peer has died */
        if (sleeps)
            CHECK(!ibv_req_notify_cq(send_cq, 0) && !ibv_req_notify_cq(recv_cq, 0));
        int before = sent + received;
        if (done_of(own, sent, false) < sends)
            take(send_cq, own, n, &sent, sends - done_of(own, sent, false), false);
        if (done_of(peer, received, true) < receives)
            take(recv_cq, peer, m, &received, receives - done_of(peer, received, true), true);
        if (sleeps && before == sent + received)
            sleep_for_event();
    }
}

static void verify(const struct plan *own, int n, const struct plan *peer, int m)
{
    for (int i = 0; i < n; i++) {
        if (own[i].kind == PLAN_READ)
            CHECK(!memcmp(landing + (size_t)i * SLOT_SIZE, (uint8_t *)wanted + source_offset(&own[i]), own[i].size));
        if (own[i].kind < PLAN_ADD)
            continue;
        CHECK(results[i] == shadow[i]);
        if (own[i].kind == PLAN_ADD)
            shadow[i] += own[i].operand;
        else if (own[i].operand & 1)
            shadow[i] = own[i].operand;
    }
    for (int i = 0; i < m; i++)
        for (uint32_t k = 0; peer[i].kind < PLAN_READ && k < peer[i].size; k++)
            CHECK(in[(size_t)i * SLOT_SIZE + k] == pattern(now_round, i, !me, k));
}

static void play(uint64_t seed)
{
    struct plan own[SLOTS], peer[SLOTS];
    int n = make_plan(own, seed, me), m = make_plan(peer, seed, !me);
    for (int i = 0; i < SLOTS; i++)
        for (uint32_t k = 0; k < SLOT_SIZE; k += 1)
            out[(size_t)i * SLOT_SIZE + k] = pattern(now_round, i, me, k);
    bool late = now_round % 4 == 1; /* the sender meets an empty receive queue */
    if (!late)
        post_receives(peer, m);
    barrier();
    for (int i = 0; i < n; i++)
        post_one(&own[i], i);
    if (late)
        post_receives(peer, m);
    wait_all(own, n, peer, m);
    barrier();
    verify(own, n, peer, m);
    barrier();
}

static void teardown(void)
{
    disconnect();
    CHECK(!ibv_destroy_cq(send_cq) && !ibv_destroy_cq(recv_cq) && !ibv_destroy_comp_channel(channel));
    CHECK(!ibv_dereg_mr(mr_out) && !ibv_dereg_mr(mr_source) && !ibv_dereg_mr(mr_in) && !ibv_dereg_mr(mr_landing));
    CHECK(!ibv_dereg_mr(mr_words) && !ibv_dereg_mr(mr_results) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
    free(out);
    free(in);
    free(landing);
    free(source);
    free(wanted);
    free(words);
    free(shadow);
    free(results);
}

static int run(int seconds, uint64_t seed)
{
    time_t end = time(NULL) + seconds;
    uint64_t state = seed;
    bool more = true;
    if (open_loopback())
        return 77;
    setup();
    connect_peers(&state);
    for (now_round = 1; more; now_round++) {
        play(seed);
        bool own = time(NULL) < end, peer = false;
        exchange(&own, &peer, sizeof(own));
        more = own && peer;
        if (more && now_round % ROUNDS_A_CONNECTION == 0) {
            barrier();
            disconnect();
            connect_peers(&state);
        }
    }
    teardown();
    printf("peer %d: %u rounds, all data right\n", me, now_round);
    return 0;
}

int main(int argc, char **argv)
{
    int pair[2], status = 0;
    setenv("SOFTVERBS_POLL", "sleep", 0); /* two processes, and a machine that has other work */
    int seconds = argc > 1 ? atoi(argv[1]) : 5;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        return 1;
    pid_t child = fork();
    me = child == 0;
    if (!child && (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() == 1))
        return 1; /* a parent that is killed leaves nothing behind */
    sock = pair[me];
    close(pair[!me]);
    int result = run(seconds, seed);
    if (!child)
        return result;
    close(sock);
    waitpid(child, &status, 0);
    return result ? result : WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
