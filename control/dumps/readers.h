/* SPDX-License-Identifier: Apache-2.0 */
/* The readers of dumps: each recognizes its own, and makes boxes of it. */
#ifndef TUTTI_DUMPS_READERS_H
#define TUTTI_DUMPS_READERS_H

#include "dumps/build.h"

/* Turns a Python pickle of plain values into JSON, and refuses whatever makes objects or calls code. NULL after
 * error_note. */
json_t *pickle_read(const void *bytes, size_t size, const char *path);

bool recorder_knows(const json_t *root);
tutti_result_t recorder_read(struct dump *dump);
bool ncclx_knows(const json_t *root);
tutti_result_t ncclx_read(struct dump *dump);
bool ras_knows(const json_t *root);
tutti_result_t ras_read(struct dump *dump);

#endif
