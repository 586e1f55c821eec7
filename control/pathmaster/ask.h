/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of pathmaster.proto as bytes. What is read may be hostile: whatever comes is a message or a sentence,
 * and takes no more memory than a constant. */
#ifndef TUTTI_PATHMASTER_ASK_H
#define TUTTI_PATHMASTER_ASK_H

#include "pathmaster/pathmaster.pb-c.h"

#include "tutti/tutti.h"

#include <stddef.h>
#include <stdint.h>

#define PATH_VERSION 1u
#define PATH_BYTES   (1u << 20) /* of a message */
#define PATH_LANES   4096u      /* of a question, and numbers of ended ones */
#define PATH_MOVED   65536u     /* of an answer */
#define PATH_LINKS   4096u
#define PATH_ADDRESS 16u
#define PATH_NICS    64u   /* of a host that probes */
#define PATH_TASKS   4096u /* of a host */
#define PATH_HOPS    4u

/* TUTTI_INVALID_USAGE after error_note. The caller frees *out by the other function. */
tutti_result_t path_ask_read(const void *bytes, size_t size, Tutti__PathAsk **out);
void path_ask_free(Tutti__PathAsk *ask);
tutti_result_t path_answer_read(const void *bytes, size_t size, Tutti__PathAnswer **out);
void path_answer_free(Tutti__PathAnswer *answer);

/* The caller frees the bytes; NULL: no memory. */
uint8_t *path_pack(const ProtobufCMessage *message, size_t *size);

#endif
