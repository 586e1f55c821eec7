/* SPDX-License-Identifier: Apache-2.0 */
/* Messages. */
#ifndef TUTTI_MPI_MESSAGES_H
#define TUTTI_MPI_MESSAGES_H

#include "mpi/requests.h"

int messages_start(void);
void messages_end(void);
int message_send(const void *buffer, size_t bytes, int to, int tag, struct comm *c, bool synchronous,
                 struct request **made);
int message_receive(void *buffer, size_t bytes, int from, int tag, struct comm *c, struct request **made);
/* Waits, or only looks: *done tells. Under no lock of the caller. */
tutti_result_t message_ended(struct request *r, bool wait, bool *done);
bool message_cancel(struct request *r);
void buffered_reap(bool wait);
const char *message_why(int peer); /* what was found when the peer was lost */
struct message_arrival;
int arrival_find(int from, int tag, struct comm *c, bool wait, bool take, struct message_arrival **found,
                 struct status *s);
void arrival_receive(struct message_arrival *a, struct request *r, void *buffer, size_t bytes);

#endif
