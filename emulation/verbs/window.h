/* SPDX-License-Identifier: Apache-2.0 */
/* Memory windows: keys for a part of a region, given and taken back by requests of a queue pair. */
#ifndef VERBS_WINDOW_H
#define VERBS_WINDOW_H

#include "verbs/object.h"

/* NULL with errno set. */
struct window *window_create(struct pd *pd, enum ibv_mw_type type);
void window_destroy(struct window *window);

/* What a request for a bind asks. */
struct window_bind {
    uint32_t handle, rkey;    /* of the window, and its key from now on */
    uint32_t lkey;            /* of the region */
    uint64_t address, length; /* 0: the window is bound to nothing any more */
    unsigned access;
};

/* False: the request completes with IBV_WC_MW_BIND_ERR. */
bool window_bind(const struct qp *qp, const struct window_bind *bind);

/* Takes the key of a bound window of type 2 back. False: there is none that this queue pair may take back. */
bool window_invalidate(const struct qp *qp, uint32_t rkey);

#endif
