/* SPDX-License-Identifier: Apache-2.0 */
/* Probes in what an agent asks its master, and in what the master answers. */
#ifndef TUTTI_PATHAGENT_PROBING_H
#define TUTTI_PATHAGENT_PROBING_H

#include "pathagent/prober.h"
#include "pathmaster/ask.h"

struct probing;

/* NULL after error_note. */
struct probing *probing_open(const struct prober_options *options);
void probing_close(struct probing *probing);

/* Sets the question's fields, which stay until the next call. */
void probing_ask(struct probing *probing, Tutti__PathAsk *ask);
void probing_answer(struct probing *probing, const Tutti__PathAnswer *answer);
/* What fits nothing that was sent, or was over the budget, since the last call: *out is a sentence. False: nothing. */
bool probing_complaint(struct probing *probing, char out[160]);

#endif
