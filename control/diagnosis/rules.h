/* SPDX-License-Identifier: Apache-2.0 */
/* The rules, in the order in which diagnosis_find asks them. */
#ifndef TUTTI_DIAGNOSIS_RULES_H
#define TUTTI_DIAGNOSIS_RULES_H

#include "diagnosis/finding.h"

void rule_calls(struct scene *scene, struct findings *findings);
void rule_failures(struct scene *scene, struct findings *findings);
void rule_joining(struct scene *scene, struct findings *findings);
void rule_hang(struct scene *scene, struct findings *findings);
/* Calls of one rank that meet other calls of the others, where the job goes on. */
void rule_shifted(struct scene *scene, struct findings *findings);
void rule_slow(struct scene *scene, struct findings *findings);
/* Slow ranks for which others wait in messages, too. */
void rule_outside(struct scene *scene, struct findings *findings);
void rule_idle(struct scene *scene, struct findings *findings);
void rule_lanes(struct scene *scene, struct findings *findings);
/* Interfaces that were slow for a while, minutes ago: notes. */
void rule_hiccups(struct scene *scene, struct findings *findings);
/* Puts a network that lets nothing through in place of hangs that it explains. */
void rule_cut(struct scene *scene, struct findings *findings);
/* Lanes that went down though their processes live. */
void rule_losses(struct scene *scene, struct findings *findings);
void rule_delays(struct scene *scene, struct findings *findings);
void rule_slowed(struct scene *scene, struct findings *findings);
/* Makes a scene of its own, with no patience: waits of this very moment count. */
void rule_starved(const struct snapshot *snapshot, struct findings *findings);

#endif
