/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of pointers by a small number, which grow. */
#ifndef TUTTI_LINK_SLOTS_H
#define TUTTI_LINK_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

/* Makes `table` longer than `index`. False: no memory. */
bool slots_grow(void ***table, uint32_t *size, uint32_t index);
/* An index that is free in `table`, growing it if need be. `most`: none. */
uint32_t slots_free(void ***table, uint32_t *size, uint32_t most);

#endif
