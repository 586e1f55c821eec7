/* SPDX-License-Identifier: Apache-2.0 */
/* Which name was meant by a word that is none. */
#ifndef TUTTI_BASE_GUESS_H
#define TUTTI_BASE_GUESS_H

#include <stddef.h>

/* The one of `count` names that `word` was most likely meant to be; NULL when none is near. A name that begins with the
 * word is nearest, then counts how many letters are wrong, missing, too many or swapped with their neighbour. */
const char *guess_name(const char *word, const char *const *names, size_t count);

/* That number of letters. */
int guess_distance(const char *a, const char *b);

#endif
