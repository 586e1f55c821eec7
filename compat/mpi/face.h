/* SPDX-License-Identifier: Apache-2.0 */
/* What the generated faces need: how handles and statuses look in the two ABIs. */
#ifndef COMPAT_MPI_FACE_H
#define COMPAT_MPI_FACE_H

#include <stdlib.h>

#include "mpi/comms.h"
#include "mpi/errors.h"

typedef uintptr_t wide_t; /* a handle of MPItrampoline */

struct short_status { /* MPICH's */
    int low, high;
    int source, tag, error;
};
struct long_status { /* MPItrampoline's; the first 24 bytes belong to the library */
    int64_t bytes;
    int cancelled, padding[3];
    int source, tag, error;
};

static inline int *narrow(const wide_t *handles, int count)
{
    int *made = calloc(count > 0 ? count : 1, sizeof(*made));
    for (int i = 0; made && i < count; i++)
        made[i] = (int)handles[i];
    return made;
}

static inline void widen(wide_t *handles, int *made, int count)
{
    for (int i = 0; made && i < count; i++)
        handles[i] = (unsigned)made[i];
    free(made);
}

static inline struct status *statuses(int count)
{
    struct status *made = calloc(count > 0 ? count : 1, sizeof(*made));
    for (int i = 0; made && i < count; i++)
        made[i] = (struct status)EMPTY_STATUS;
    return made;
}

static inline bool ignored(const void *status)
{
    return (uintptr_t)status <= 1;
}

static inline void short_status_store(struct short_status *out, const struct status *s)
{
    if (ignored(out))
        return;
    out->low = (int)(s->bytes & 0xffffffff);
    out->high = (int)((s->bytes >> 32) << 1) | s->cancelled;
    out->source = s->source;
    out->tag = s->tag;
}

static inline struct status short_status_read(const struct short_status *in)
{
    struct status s = EMPTY_STATUS;
    if (!ignored(in)) {
        s.bytes = (int64_t)(unsigned)in->low | ((int64_t)(in->high >> 1) << 32);
        s.cancelled = in->high & 1;
    }
    return s;
}

static inline void long_status_store(struct long_status *out, const struct status *s)
{
    if (ignored(out))
        return;
    out->bytes = s->bytes;
    out->cancelled = s->cancelled;
    out->source = s->source;
    out->tag = s->tag;
}

static inline struct status long_status_read(const struct long_status *in)
{
    struct status s = EMPTY_STATUS;
    if (!ignored(in)) {
        s.bytes = in->bytes;
        s.cancelled = in->cancelled;
    }
    return s;
}

#define ALL_STATUSES(kind)                                                                                             \
    static inline void kind##_all(struct kind *out, struct status *made, int count, int result)                        \
    {                                                                                                                  \
        for (int i = 0; made && !ignored(out) && i < count; i++) {                                                     \
            kind##_store(&out[i], &made[i]);                                                                           \
            if (result == ERR_IN_STATUS)                                                                               \
                out[i].error = made[i].error;                                                                          \
        }                                                                                                              \
        free(made);                                                                                                    \
    }
ALL_STATUSES(short_status)
ALL_STATUSES(long_status)

#endif
