/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol of a queue pair: the requester sends requests and takes answers, the responder takes requests and
 * answers. */
#ifndef VERBS_TRANSPORT_H
#define VERBS_TRANSPORT_H

#include "verbs/hand.h"
#include "verbs/object.h"
#include "verbs/wire.h"

#include <sys/uio.h>

/* Sends requests as far as window, credits and timers allow. */
void requester_run(struct qp *qp, uint64_t now);
/* An acknowledgement, a read response or an atomic answer came. */
void requester_answer(struct qp *qp, const struct packet *packet, uint64_t now);
/* Timers. */
uint64_t requester_timer(struct qp *qp, uint64_t now);
/* Everything that was not completed ends with `status` (the first) and WR_FLUSH_ERR. */
void requester_flush(struct qp *qp);
void requester_complete(struct qp *qp, enum ibv_wc_status status);

void responder_request(struct qp *qp, const struct packet *packet);
/* One came with an operation that does not exist: refused when its turn is. */
void responder_unknown(struct qp *qp, const struct packet *packet);
/* A request came of which the data could not be fetched. */
void responder_missed(struct qp *qp, const struct packet *packet);
/* Sends answers that are due. `replying`: the program has something to send as well. */
void responder_run(struct qp *qp, uint64_t now, bool replying);
/* One answer, or a part of it, leaves. False: its data cannot be read. */
bool responder_answer(struct qp *qp, struct answer_entry *entry);
void responder_ack(struct qp *qp);
/* Of what is before this number alone. */
void responder_ack_until(struct qp *qp, uint32_t psn, uint32_t msn);
/* When an acknowledgement that waits must leave; 0: none waits. */
uint64_t responder_timer(struct qp *qp, uint64_t now);
void responder_flush(struct qp *qp);
/* An acknowledgement that waits leaves now: the queue pair goes. */
void responder_settle(struct qp *qp);

void responder_uc(struct qp *qp, const struct packet *packet);
void responder_ud(struct qp *qp, const struct packet *packet, const struct arrival *arrival);

/* Takes the next posted receive of the queue pair or its shared queue. */
bool responder_take_wqe(struct qp *qp, struct recv_wqe *wqe, struct ibv_sge *sges);
void responder_complete(struct qp *qp, const struct ibv_wc *wc, bool solicited);

/* Builds one packet around the headers; `fill` adds `size` bytes of payload. 0 or what fill returned. */
typedef int (*payload_fn)(void *arg, uint8_t *to, uint32_t size, uint32_t *crc);
/* A payload that says where the data is. `arg` is a struct transport_pieces. */
struct transport_pieces {
    struct iovec pieces[HAND_PIECES];
    int n;
};
int transport_fill_pieces(void *arg, uint8_t *to, uint32_t size, uint32_t *crc);
int transport_send(const struct path *path, struct packet *packet, uint32_t size, payload_fn fill, void *arg);

#endif
