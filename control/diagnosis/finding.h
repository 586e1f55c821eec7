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
/* Is the member's process the culprit of a finding of this kind? */
bool finding_names(const struct findings *findings, enum finding_kind kind, const struct member *member);
void say(struct finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds one line of evidence, if there is room. */
void prove(struct finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "rank 3 (process 812 on node7)" */
void say_who(struct finding *finding, const struct member *member);
/* " 0 1 2 and 5 more"; of members also " 4 6 of world", their ranks in the largest communicator of their processes. */
struct rank_list {
    char text[160], own[160]; /* own: ranks in the communicator itself */
    size_t count, named;
    const struct blackbox_comm *comm, *world; /* of the first member; NULL: the ranks are no members */
    bool mixed;                               /* their largest communicators are several */
};
void list_rank(struct rank_list *list, int rank);
void list_member(struct rank_list *list, const struct member *member);
struct rank_list list_of(const struct member *member);
const char *list_text(struct rank_list *list);
/* The number by which people know this rank of the member's communicator; -1: its box is not here, and nothing else
 * tells. */
int world_rank_of(const struct scene *scene, const struct member *member, int rank);
/* Is this the largest communicator of its process? */
bool is_world(const struct member *member);
/* "rank 3 (WHY)"; "rank 5 (rank 1 of tensor; WHY)": a rank without a box, of the member's communicator. */
void say_absent(struct finding *finding, const struct member *member, int rank, const char *why);

#endif
