/* SPDX-License-Identifier: Apache-2.0 */
/* Results and sentences. */
#ifndef TUTTI_NCCL_RESULT_H
#define TUTTI_NCCL_RESULT_H

#include "nccl/names.h"

#define RESULT_SENTENCE 512

/* Keeps the sentence for ncclGetLastError(); returns `result`. */
ncclResult_t result_fail(ncclResult_t result, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
/* tutti's result as NCCL's; a failure's sentence is kept. comm may be NULL. */
ncclResult_t result_of(tutti_result_t result, tutti_comm_t comm);
const char *result_sentence(void);
/* The same sentence, later: the buffer holds it meanwhile. */
void result_keep(char kept[RESULT_SENTENCE]);
void result_restore(const char kept[RESULT_SENTENCE]);
/* Shown to this thread alone, until its next one. */
const char *result_show(const char *sentence);

#endif
