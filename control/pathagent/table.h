/* SPDX-License-Identifier: Apache-2.0 */
/* The lanes of a host's processes: what they have asked, what the master knows of them. No socket is touched here. */
#ifndef TUTTI_PATHAGENT_TABLE_H
#define TUTTI_PATHAGENT_TABLE_H

#include "pathmaster/ask.h"

#include "wire/lease.h"

#include <stdbool.h>

#define TABLE_LANES  65536 /* of all processes of the host */
#define TABLE_SECRET 16

struct lane_table;

/* Hears an answer for a process. */
typedef void table_tell(void *context, int32_t client, const struct wire_lease_answer *answer);

/* NULL after error_note. */
struct lane_table *table_open(table_tell *tell, void *context);
void table_close(struct lane_table *table);

/* A process asks. False: the question makes no sense, or there are TABLE_LANES lanes; nothing is told. */
bool table_ask(struct lane_table *table, int32_t client, const struct wire_lease_ask *ask);
/* A process has gone. */
void table_leave(struct lane_table *table, int32_t client);

/* Lanes that the master is to be asked for, or told that they ended. */
bool table_has_news(const struct lane_table *table);
/* Lanes that the master is to keep. */
int32_t table_lanes(const struct lane_table *table);

/* The question as bytes, which the caller frees; table_answer() or table_fail() follows. NULL after error_note. `ask`:
 * has what is asked beside lanes. */
uint8_t *table_question(struct lane_table *table, Tutti__PathAsk *ask, size_t *size);
/* TUTTI_REMOTE_ERROR after error_note: it answers another question, and changes nothing. */
tutti_result_t table_answer(struct lane_table *table, const Tutti__PathAnswer *answer);
/* No master: all that wait are told that there is no port. They are asked for all the same: what the next master gives
 * is news to the living lane. */
void table_fail(struct lane_table *table);

#endif
