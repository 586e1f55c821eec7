/* SPDX-License-Identifier: Apache-2.0 */
/* Findings as people and programs read them. */
#ifndef TUTTI_VERDICT_VERDICT_H
#define TUTTI_VERDICT_VERDICT_H

#include "diagnosis/diagnosis.h"
#include "diagnosis/network.h"

#include <jansson.h>
#include <stdio.h>

/* What the sentence is: a verdict, or a note where nobody is to blame. */
const char *verdict_word(const struct finding *finding);
/* The sentence, the evidence, what to do. */
void verdict_print(FILE *out, const struct finding *finding);
/* A text that a program chose; "?" if it is no UTF-8. NULL: no memory. */
json_t *verdict_text(const char *text);
/* The time of each job, step by step, and the traffic of its interfaces. */
void verdict_print_network(FILE *out, const struct network_report *report, const struct findings *findings);
/* An array of jobs. NULL: no memory. */
json_t *verdict_network_json(const struct network_report *report, const struct findings *findings);
/* NULL: no memory. */
json_t *verdict_json(const struct finding *finding);

#endif
