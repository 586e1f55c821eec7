/* SPDX-License-Identifier: Apache-2.0 */
/* The talk with the other side: from the request to the goodbye. With the lock held; what answers an int answers 0 or
 * errno. */
#ifndef RDMACM_PEER_H
#define RDMACM_PEER_H

#include "rdmacm/id.h"

/* A request that came through the door of a listener. */
void peer_arrive(struct cm_id *listener, const struct cm_message *request, int fd);

int peer_connect(struct cm_id *id, const struct rdma_ucm_conn_param *param);
/* The listener's answer, and with NULL the asker's thanks for that. */
int peer_accept(struct cm_id *id, const struct rdma_ucm_conn_param *param);
int peer_reject(struct cm_id *id, uint8_t reason, const uint8_t *data, uint8_t size);
int peer_disconnect(struct cm_id *id);
/* The program has seen data of a connection whose thanks are still on their way. */
int peer_established(struct cm_id *id);
/* Something came on the identifier's stream: a watch_fn. */
void peer_ready(void *arg, uint32_t events);
/* Ends whatever there is. The other side hears of it. */
void peer_end(struct cm_id *id);

#endif
