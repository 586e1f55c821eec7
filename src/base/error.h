/* SPDX-License-Identifier: Apache-2.0 */
/* Results and their sentences: a failing function records what was tried and what came back, and returns the code. */
#ifndef TUTTI_BASE_ERROR_H
#define TUTTI_BASE_ERROR_H

#include "tutti/tutti.h"

#include <stddef.h>

/* Records the sentence for this thread, logs it at level WARN and returns `code`. */
tutti_result_t error_set(tutti_result_t code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* As error_set, without a log line: for errors that are expected (in progress, probing). */
tutti_result_t error_note(tutti_result_t code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Keeps the sentence of a failure over what cleaning up behind the failure notes. */
struct error_saved {
    char sentence[1024];
};
void error_save(struct error_saved *out);
void error_restore(const struct error_saved *saved);

/* The sentence of this thread's last failure, "" if none. Valid until the thread's next failure. */
const char *error_last(void);

/* "invalid argument" and the like. Never NULL. */
const char *error_name(tutti_result_t code);

#endif
