/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of pointers by a small number, which grow. */
#include "link/slots.h"

#include <stdlib.h>
#include <string.h>

bool slots_grow(void ***table, uint32_t *size, uint32_t index)
{
    uint32_t bigger = *size ? *size : 16;
    while (bigger <= index)
        bigger *= 2;
    if (bigger == *size)
        return true;
    void **grown = realloc(*table, bigger * sizeof *grown);
    if (!grown)
        return false;
    memset(grown + *size, 0, (bigger - *size) * sizeof *grown);
    *table = grown;
    *size = bigger;
    return true;
}

uint32_t slots_free(void ***table, uint32_t *size, uint32_t most)
{
    uint32_t slot = 0;
    while (slot < *size && (*table)[slot])
        slot++;
    return slot < most && slots_grow(table, size, slot) ? slot : most;
}
