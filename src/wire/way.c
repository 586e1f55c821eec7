/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/way.h"

#include <stddef.h>
#include <string.h>

static const struct way_row way_rows[WAY_COUNT] = {
#define WAY_ROW(id, name, means, ...) [WAY_##id] = {name, WAY_BY_##means},
#include "tables/way_rows.tbl"
#undef WAY_ROW
};

const struct way_row *way_row(enum way way)
{
    return &way_rows[way];
}

const struct way_row *way_named(const char *name)
{
    for (int way = 0; way < WAY_COUNT; way++)
        if (strcmp(way_rows[way].name, name) == 0)
            return &way_rows[way];
    return NULL;
}
