/* SPDX-License-Identifier: Apache-2.0 */
/* The secret that the agents and the master of a job share: the first line of a file. */
#ifndef TUTTI_REPORT_TOKEN_H
#define TUTTI_REPORT_TOKEN_H

#include "tutti/tutti.h"

#define TOKEN_LEAST 16
#define TOKEN_MOST  256

struct token {
    char text[TOKEN_MOST + 1];
};

/* TUTTI_SYSTEM_ERROR or TUTTI_INVALID_USAGE, after error_note. */
tutti_result_t token_load(const char *path, struct token *out);

#endif
