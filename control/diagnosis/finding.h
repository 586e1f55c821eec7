/* SPDX-License-Identifier: Apache-2.0 */
/* A finding in the making. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_FINDING_H
#define TUTTI_DIAGNOSIS_FINDING_H

#include "diagnosis/scene.h"

struct finding *finding_add(struct findings *findings, enum finding_kind kind, enum confidence confidence,
                            const struct member *about);
/* The same for a rank of this communicator without a box. */
struct finding *finding_add_rank(struct findings *findings, enum finding_kind kind, const struct blackbox_comm *comm,
                                 int rank);
void say(struct finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds one line of evidence, if there is room. */
void prove(struct finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "rank 3 (process 812 on node7)" */
void say_who(struct finding *finding, const struct member *member);
/* " 0 1 2 and 5 more" */
struct rank_list {
    char text[128];
    size_t count, named;
};
void list_rank(struct rank_list *list, int rank);
const char *list_text(struct rank_list *list);

#endif
