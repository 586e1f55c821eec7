/* SPDX-License-Identifier: Apache-2.0 */
/* Handing data over between processes of a host (SOFTVERBS_HANDOVER=1): a packet says where its bytes are, the receiver
 * fetches them with process_vm_readv. All calls but hand_ask under the engine's lock. */
#ifndef VERBS_HAND_H
#define VERBS_HAND_H

#include "verbs/object.h"

#define HAND_PACKETS  16 /* packets that one of these stands for at most */
#define HAND_PIECES   4
#define HAND_REF_SIZE 16

bool hand_wanted(void);

/* Whether data for this peer may be handed over: it lives on this host and can read our memory. Asks its process and
 * waits for the answer, so not with the lock held. */
bool hand_ask(struct qp *qp, const struct ibv_qp_attr *attr);

/* The other end of that question: "SLOT ADDRESS VALUE" from process `pid`. 0 or errno. */
int hand_answer(pid_t pid, const char *args);

/* Writes where the pieces are; returns the bytes written. */
uint32_t hand_describe(const struct iovec *pieces, int n, uint8_t *out);

/* Replaces what `packet` says by the bytes themselves. They are good until the next call. */
bool hand_take(const struct qp *qp, struct packet *packet);

#endif
