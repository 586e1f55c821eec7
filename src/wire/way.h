/* SPDX-License-Identifier: Apache-2.0 */
/* The ways in which GPUs carry out a collective, as black boxes name them. */
#ifndef TUTTI_WIRE_WAY_H
#define TUTTI_WIRE_WAY_H

enum way {
#define WAY_ROW(id, ...) WAY_##id,
#include "tables/way_rows.tbl"
#undef WAY_ROW
    WAY_COUNT
};

enum way_means { WAY_BY_KERNEL, WAY_BY_ENGINE };

struct way_row {
    const char *name;
    enum way_means means;
};

const struct way_row *way_row(enum way way);
/* The row of this name; NULL: there is none. */
const struct way_row *way_named(const char *name);

#endif
