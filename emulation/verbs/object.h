/* SPDX-License-Identifier: Apache-2.0 */
/* The objects behind the handles of <verbs.h>. Each begins with its public struct, so that a handle converts by a cast.
 * All fields are guarded by the engine's lock but those of a completion queue's ring, which have their own. */
#ifndef VERBS_OBJECT_H
#define VERBS_OBJECT_H

#include "verbs/counters.h"
#include "verbs/packet.h"

#include "base/list.h"

#include <infiniband/verbs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>

#define GID_COUNT     32
#define MAX_QP_WR     16384
#define MAX_SGE       32
#define MAX_INLINE    1024
#define LEAST_INLINE  60 /* adapters have room in each request, and rdma_xclient counts on that */
#define MAX_CQE       (1 << 22)
#define MAX_RD_ATOMIC 128
#define MAX_MSG_SIZE  0x80000000u
#define MAX_QP        65536
#define MAX_SRQ_WR    65536
#define READ_PACKETS  64 /* packets of one READ request on the wire: longer reads are cut */

enum gid_state { GID_FREE, GID_VALID };

struct gid_slot {
    union ibv_gid gid;
    enum gid_state state;
};

/* One network interface. Lives until the process ends: programs keep device pointers without limit. */
struct rdma_device {
    struct ibv_device ibv;
    struct list node;     /* in the table of devices */
    struct list contexts; /* open ones */
    int ifindex;
    char ifname[IF_NAMESIZE];
    char place[160]; /* below /sys/devices; empty: nobody said where */
    unsigned mtu;
    int hardware; /* ARPHRD_* */
    uint64_t speed_mbps;
    uint8_t mac[6];
    bool up, present, frozen, seen;
    bool unplugged; /* by command: not present, whatever its interface is */
    int gid_shift;
    int carrier;         /* when it was looked at last; -1: its driver does not say */
    unsigned waiting;    /* datagrams that wait for room in its queue */
    unsigned refused_at; /* of the tries to send them, the last one that its queue refused */
    struct gid_slot gids[GID_COUNT];
    _Atomic uint64_t counts[COUNTER_COUNT]; /* by this process */
    uint64_t others[COUNTER_COUNT];         /* by other ones, when they were last asked: gather.h */
};

struct event {
    struct list node;
    struct ibv_async_event ibv;
};

struct rdma_context {
    struct verbs_context verbs;
    struct rdma_device *device;
    struct list node;   /* in device->contexts */
    struct list events; /* of struct event */
    int async_writer;   /* of the public async_fd */
    int objects;        /* protection domains, completion queues and channels that are still alive */
    bool closed;        /* goes with the last object */
    _Atomic bool dead;  /* its device was taken out: it only can be closed, also when the device is there again */
    bool inherited;     /* opened by the process that this one was forked from: its sockets and packets are not ours */
    uint64_t file;      /* which one is behind cmd_fd: contexts that were imported have the same */
};

struct td {
    struct ibv_td ibv;
    int users;
};

struct pd {
    struct ibv_pd ibv;
    struct list node; /* of all that have a handle */
    int users;
    struct pd *base; /* of a parent domain, and of one that was imported: the protection domain it stands for */
    struct td *thread;
};

/* When something may be moved to or from memory that is slow: pace.h. */
struct pace_turn {
    uint64_t at; /* not before; 0: does not wait */
    size_t left; /* bytes that may go now */
    bool on;     /* the memory that it was asked for last has a rate */
};

struct mr {
    struct ibv_mr ibv;
    struct pace *pace; /* NULL: as fast as it goes */
    uint64_t iova;
    uint8_t *host;
    int access;
    bool foreign;  /* memory that only the hook can touch */
    bool demand;   /* on demand: its pages may be missing */
    bool imported; /* a program's second handle of a region: keys, and nothing else */
    size_t pinned; /* bytes that count against ulimit -l */
    /* of a descriptor: */
    void *mapping; /* NULL: the program's own memory */
    size_t mapped;
    uint64_t memory; /* which device's it is */
    int windows;     /* bound windows of it */
    bool window;     /* has no memory of its own: a part of the region `of`, NULL: it is not bound */
    bool type_2;
    struct mr *of;
    uint32_t only; /* the queue pair of a window of type 2 that is bound */
};

struct window {
    struct ibv_mw ibv;
    struct mr *entry; /* in the table of regions */
};

struct event_channel {
    struct ibv_comp_channel ibv;
    struct list ready; /* completion queues that have an event to report */
    int writer;        /* of the public descriptor */
    int users;
};

enum arm { ARM_NONE, ARM_SOLICITED, ARM_ANY };

struct completion {
    struct ibv_wc wc;
    uint64_t time_ns;
    bool loud; /* solicited, or not a success */
};

struct cq {
    struct ibv_cq_ex ex;
    pthread_mutex_t guard; /* of the ring and of `arm` */
    struct completion *ring;
    uint32_t capacity, head, count;
    struct completion current; /* what the extended interface's readers read */
    enum arm arm;
    uint64_t written, told; /* completions ever, and those that were there at the last event */
    bool overrun;
    bool extended;
    struct pd *domain; /* a parent domain, or NULL */
    int users;
    struct list ready; /* in channel->ready */
    uint32_t pending;  /* events that wait in the channel */
    uint32_t reported; /* events that the program has taken */
    uint32_t async_reported;
};

struct recv_wqe {
    uint64_t wr_id;
    int count; /* of sge */
};

struct recv_queue {
    struct recv_wqe *wqes;
    struct ibv_sge *sges;
    uint32_t capacity, max_sge, head, tail; /* head and tail only grow */
};

/* Queues and queue pairs that belong together: xrc.h. */
struct xrcd {
    struct ibv_xrcd ibv;
    struct xrc_domain *domain;
    int users;
};

struct srq {
    struct ibv_srq ibv;
    struct recv_queue queue;
    uint32_t limit;
    uint32_t async_reported;
    int users;
    /* of a domain of XRC: */
    struct xrcd *xrcd;
    struct cq *cq;
    uint32_t number;
    struct list node; /* in the domain */
};

/* How packets to a peer leave: addresses, traffic class and ports. */
struct path {
    struct rdma_device *device;
    bool v6;
    uint8_t traffic_class;
    uint16_t source_port;
    uint8_t source[16], destination[16]; /* IPv4: the first four bytes */
    union ibv_gid source_gid, destination_gid;
    uint8_t sgid_index;
};

struct ah {
    struct ibv_ah ibv;
    struct path path;
    struct ibv_ah_attr attr;
};

enum wqe_state { WQE_POSTED, WQE_STARTED, WQE_SENT };

struct send_wqe {
    uint64_t wr_id, remote, compare, swap_add;
    enum ibv_wr_opcode opcode;
    enum ibv_send_flags flags;
    enum ibv_wc_status status; /* anything but success: found bad before it was sent, completes when its turn comes */
    enum wqe_state state;
    bool signaled;
    bool apart; /* a WRITE of which each packet is a WRITE of its own: equally long ones make one super-packet */
    uint32_t imm, rkey, length, packets, first_psn;
    int count;          /* of sges */
    uint8_t *inlined;   /* the bytes, for an inline request */
    uint8_t eight[8];   /* those of an atomic write */
    struct path path;   /* datagrams */
    uint32_t qpn, qkey; /* datagrams; of a bind: the window's handle and the region's key */
    uint32_t srqn;      /* XRC */
};

/* A READ or atomic on the wire of which the answer is not complete. */
struct pending_read {
    uint32_t first, end; /* PSNs: [first, end) */
};

struct requester {
    struct send_wqe *wqes;
    struct ibv_sge *sges;
    uint8_t *inline_bytes;
    uint32_t capacity, max_sge, max_inline;
    uint32_t head, next, tail; /* oldest not complete, the one being sent, first free; only grow */
    uint32_t offset;           /* packets of `next` that were sent */
    uint32_t psn, unacked;     /* next to send, oldest not acknowledged */
    uint32_t highest;          /* one after the highest PSN ever sent: what is before it is a retransmission */
    struct pending_read *reads;
    uint32_t read_head, read_tail, read_capacity;
    uint32_t window, window_credit;
    uint32_t until;   /* packets before this PSN may leave now */
    uint32_t unasked; /* packets since one that asked for an acknowledgement */
    uint32_t goback_psn;
    uint64_t goback_until;               /* do not go back to goback_psn again before this */
    uint64_t ack_deadline, rnr_deadline; /* 0: not running */
    uint8_t retry_left, rnr_left;
    bool draining;
    bool twice; /* FLUSHes leave with the ICRC of rxe: this or the other, after each that got no answer */
    struct pace_turn turn;
};

enum answer { ANSWER_READ, ANSWER_ATOMIC, ANSWER_WRITTEN, ANSWER_ACK };

/* An answer that must leave in order, or one kept for duplicates. */
struct answer_entry {
    enum answer kind;
    uint32_t psn, packets, done;
    uint64_t va, original;
    uint32_t rkey, length;
    uint32_t msn, srqn;
    uint8_t syndrome;
    bool valid;
    bool repeated; /* by packets: something did not work */
    bool apart;    /* equally long packets, which make super-packets: the peer takes them */
};

#define ANSWERS_MAX 256

struct responder {
    uint32_t psn, msn; /* expected, completed messages */
    enum operation last;
    bool in_message, nak_sent, ack_due, message_dropped;
    uint64_t ack_at;   /* an acknowledgement that is due may wait until then; 0: leaves at once */
    uint64_t asked_at; /* when a message came that the program has not answered by one of its own; 0: none */
    uint8_t replies;   /* messages in a row that were answered quickly */
    struct pace_turn turn;
    uint64_t held_until;         /* what was written to slow memory is there then: no answer before. 0: nothing waits */
    uint64_t all_until;          /* the same for all that was written */
    uint32_t held_psn, held_msn; /* what may be acknowledged at held_until */
    uint64_t va;
    uint32_t rkey, left, received; /* of an RDMA WRITE or a SEND in progress */
    bool have_wqe;
    struct recv_wqe wqe;
    struct ibv_sge sges[MAX_SGE];
    struct answer_entry *queue; /* ANSWERS_MAX: to be sent */
    uint32_t queue_head, queue_tail;
    struct answer_entry *kept; /* max_dest_rd_atomic: for duplicates */
    uint32_t kept_count, kept_next;
    bool communication;
    struct srq *named;   /* of XRC: the queue that the packet or answer at hand is about. Its memory is meant */
    struct srq *filling; /* the one whose receive the message in progress has, or may want */
};

struct qp {
    struct ibv_qp_ex ex; /* begins with struct ibv_qp */
    void (*wr_flush)(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote, size_t size, uint8_t type, uint8_t level);
    /* where later <verbs.h> have it, as the last one of struct ibv_qp_ex */
    struct rdma_context *context;
    struct xrcd *xrcd; /* of a queue pair that receives for the queues of a domain, or NULL */
    uint32_t serial;   /* of creation */
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    enum ibv_qp_state state;
    bool signal_all, extended, dirty, dead;
    bool hands; /* data for the peer is handed over: hand.h */
    uint32_t mtu;
    struct path path;
    uint16_t forced_port; /* by mlx5dv_modify_qp_udp_sport, 0: none */
    struct requester req;
    struct responder resp;
    struct recv_queue recv;
    struct list dirty_node, timer_node;
    struct list groups; /* of struct multicast_group: multicast */
    uint32_t async_reported;
    /* Requests that the ibv_wr_* calls are building. The lock is held from the first to the last of them, and taken
     * before the engine's: other calls of verbs are allowed meanwhile. */
    pthread_mutex_t building;
    uint32_t building_from;
    int building_error;
};

static inline struct ibv_qp *qp_ibv(struct qp *qp)
{
    return &qp->ex.qp_base;
}

static inline struct rdma_context *context_of(struct ibv_context *ibv)
{
    return (struct rdma_context *)((char *)ibv - offsetof(struct verbs_context, context));
}

/* A number for the file behind a descriptor; 0: there is none. */
uint64_t file_of(int fd);

/* An object of the context has gone, with the engine's lock held. A program may close a device first and its objects
 * later. */
void context_put(struct rdma_context *context);

/* Not in a child of fork: another thread of the parent may have held the lock when the child was made. */
static inline void qp_build(struct qp *qp, bool begin)
{
    if (qp->context->inherited)
        return;
    if (begin)
        pthread_mutex_lock(&qp->building);
    else
        pthread_mutex_unlock(&qp->building);
}

/* The protection domain itself: queue pairs and regions of it and of its parent domains go together. */
static inline struct pd *pd_base(struct ibv_pd *ibv)
{
    struct pd *pd = (struct pd *)ibv;
    return pd->base ? pd->base : pd;
}

static inline struct ibv_context *context_ibv(struct rdma_context *context)
{
    return &context->verbs.context;
}

/* In which keys are looked for; NULL: in none. */
static inline struct pd *qp_pd(const struct qp *qp)
{
    if (qp->ex.qp_base.pd)
        return pd_base(qp->ex.qp_base.pd);
    return qp->resp.named ? pd_base(qp->resp.named->ibv.pd) : NULL;
}

static inline uint32_t qp_number(const struct qp *qp)
{
    return qp->ex.qp_base.qp_num;
}

static inline struct send_wqe *qp_send_wqe(struct qp *qp, uint32_t index)
{
    return &qp->req.wqes[index % qp->req.capacity];
}

static inline struct ibv_sge *qp_send_sges(struct qp *qp, uint32_t index)
{
    return &qp->req.sges[(size_t)(index % qp->req.capacity) * qp->req.max_sge];
}

#endif
