/* SPDX-License-Identifier: Apache-2.0 */
/* The table of algorithms and look-up by name. */
#include "algorithm/algorithm.h"
#include "algorithm/rows.h"

#include <stdio.h>
#include <string.h>

static const struct algorithm *const rows[] = {
#define LIST_ROW(symbol) &algorithm_##symbol,
    ALGORITHM_ROWS(LIST_ROW)
#undef LIST_ROW
};

int algorithm_count(void)
{
    return (int)(sizeof rows / sizeof *rows);
}

const struct algorithm *algorithm_row(int index)
{
    return index >= 0 && index < algorithm_count() ? rows[index] : NULL;
}

static bool named(const struct algorithm *row, const char *name, size_t length)
{
    return schedule_same_name(row->name, name, length);
}

const struct algorithm *algorithm_find(enum coll coll, const char *name, size_t length)
{
    for (int i = 0; i < algorithm_count(); i++)
        if ((rows[i]->colls >> coll & 1) && named(rows[i], name, length))
            return rows[i];
    return NULL;
}

bool algorithm_known(const char *name, size_t length)
{
    for (int i = 0; i < algorithm_count(); i++)
        if (named(rows[i], name, length))
            return true;
    return false;
}

static bool seen_before(enum coll coll, int index)
{
    for (int i = 0; i < index; i++)
        if ((coll == COLL_COUNT || (rows[i]->colls >> coll & 1)) && strcmp(rows[i]->name, rows[index]->name) == 0)
            return true;
    return false;
}

char *algorithm_names(enum coll coll, char *out, size_t size)
{
    size_t used = 0;
    if (size)
        *out = 0;
    for (int i = 0; i < algorithm_count(); i++) {
        if ((coll != COLL_COUNT && !(rows[i]->colls >> coll & 1)) || seen_before(coll, i))
            continue;
        int wrote = snprintf(out + used, size - used, "%s%s", used ? ", " : "", rows[i]->name);
        if (wrote < 0 || (size_t)wrote >= size - used)
            break;
        used += (size_t)wrote;
    }
    return out;
}
