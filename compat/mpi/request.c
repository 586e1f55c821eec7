/* SPDX-License-Identifier: Apache-2.0 */
/* A request, from its first call to its end. */
#include <stdlib.h>

#include "mpi/comms.h"
#include "mpi/errors.h"
#include "mpi/requests.h"
#include "mpi/calls.h"

struct request *request_new(int what, struct comm *c)
{
    struct request *r = calloc(1, sizeof(*r));
    if (!r || tutti_stream_create(&r->stream)) {
        free(r);
        shim_fail(c, ERR_NO_MEM, "no memory for a request");
        return NULL;
    }
    r->what = what;
    r->comm = c;
    r->status = (struct status)EMPTY_STATUS;
    r->state = what == REQUEST_COLLECTIVE ? STATE_MOVES : STATE_WAITS;
    return r;
}

void request_drop(struct request *r)
{
    tutti_stream_destroy(r->stream);
    free(r->room);
    free(r);
}
