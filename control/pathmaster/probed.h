/* SPDX-License-Identifier: Apache-2.0 */
/* Probes in questions and answers. */
#ifndef TUTTI_PATHMASTER_PROBED_H
#define TUTTI_PATHMASTER_PROBED_H

#include "pathmaster/ask.h"
#include "pathmaster/state.h"

/* What an owner's host says of its paths. */
void probed_take(struct pathmaster *master, int32_t owner, const Tutti__PathAsk *ask);

/* What it is to probe. */
struct probed_tasks {
    Tutti__PathTask *task, **tasks;
    uint8_t (*address)[PATH_ADDRESS];
};
/* Sets the fields of the answer, which need *tasks until probed_free(). False: no memory. */
bool probed_tell(struct pathmaster *master, int32_t owner, const Tutti__PathAsk *ask, Tutti__PathAnswer *answer,
                 struct probed_tasks *tasks);
void probed_free(struct probed_tasks *tasks);

/* Looks for faults. */
tutti_result_t probed_look(struct pathmaster *master);

#endif
