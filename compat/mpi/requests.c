/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: calls that go on, and the calls that wait for them. */
#include <stdlib.h>
#include <time.h>

#include "mpi/requests.h"
#include "mpi/errors.h"
#include "mpi/messages.h"
#include "mpi/objects.h"
#include "mpi/calls.h"

int request_give(struct request *r, int *handle)
{
    *handle = object_new(KIND_REQUEST, r);
    return *handle ? 0 : shim_fail(r->comm, ERR_NO_MEM, "no memory for a request");
}

/* *done: it is over, and freed. Returns its error. */
static int look(struct request *r, bool wait, bool *done, struct status *s)
{
    tutti_result_t result = message_ended(r, wait, done);
    if (!*done && !wait && !result)
        return 0;
    *done = true;
    struct comm *c = r->comm;
    int error = shim_result(c, "MPI", result);
    if (!error && r->finish)
        error = r->finish(r);
    if (!error && r->status.error == ERR_TRUNCATE)
        error = shim_fail(c, ERR_TRUNCATE,
                          "the message with tag %d of rank %d is longer than the %zu bytes of the "
                          "receive's buffer",
                          r->status.tag, r->status.source, r->bytes);
    else if (!error && r->status.error)
        error = shim_fail(c, r->status.error, "%s", message_why(r->peer));
    *s = r->status;
    s->error = error;
    request_drop(r);
    return error;
}

int request_wait(struct request *r, struct status *s)
{
    bool done;
    return look(r, true, &done, s);
}

static struct request *of(int handle)
{
    struct request *r = object_get(KIND_REQUEST, handle);
    if (!r)
        shim_fail(NULL, ERR_REQUEST, "there is no request of handle 0x%x", (unsigned)handle);
    return r;
}

/* One request, if there is one. */
static int advance(int *handle, bool wait, bool *done, struct status *s)
{
    *done = true;
    *s = (struct status)EMPTY_STATUS;
    if (*handle == REQUEST_NULL)
        return 0;
    struct request *r = of(*handle);
    if (!r)
        return ERR_REQUEST;
    int at = *handle, result = look(r, wait, done, s);
    if (*done) {
        object_free(KIND_REQUEST, at);
        *handle = REQUEST_NULL;
    }
    return result;
}

int shim_Wait(int *request, struct status *s)
{
    bool done;
    return advance(request, true, &done, s);
}

int shim_Test(int *request, int *flag, struct status *s)
{
    bool done;
    int result = advance(request, false, &done, s);
    *flag = done;
    return result;
}

int shim_Waitall(int count, int *requests, struct status *s)
{
    bool done, wrong = false;
    for (int i = 0; i < count; i++)
        wrong |= advance(&requests[i], true, &done, &s[i]) != 0;
    return wrong ? ERR_IN_STATUS : 0;
}

/* All or none: a request that is over stays until all are. */
int shim_Testall(int count, int *requests, int *flag, struct status *s)
{
    *flag = 1;
    for (int i = 0; i < count && *flag; i++) {
        struct request *r = requests[i] == REQUEST_NULL ? NULL : of(requests[i]);
        bool done = true;
        if (r && !message_ended(r, false, &done) && !done)
            *flag = 0;
    }
    return *flag ? shim_Waitall(count, requests, s) : 0;
}

static void nap(int turn)
{
    struct timespec t = {0, turn < 100 ? 10000 : 500000}; /* nanoseconds */
    nanosleep(&t, NULL);
}

static int some(int count, int *requests, int most, int *done, int *indices, struct status *s)
{
    int result = 0, alive = 0;
    *done = 0;
    for (int i = 0; i < count && *done < most; i++) {
        bool over;
        if (requests[i] == REQUEST_NULL)
            continue;
        alive++;
        int error = advance(&requests[i], false, &over, &s[*done]);
        if (!over)
            continue;
        indices[(*done)++] = i;
        result = error ? error : result;
    }
    if (!alive)
        *done = UNDEFINED;
    return result;
}

int shim_Testany(int count, int *requests, int *index, int *flag, struct status *s)
{
    int done, result = some(count, requests, 1, &done, index, s);
    *flag = done != 0;
    if (done != 1) {
        *index = UNDEFINED;
        *s = (struct status)EMPTY_STATUS;
    }
    return result;
}

int shim_Waitany(int count, int *requests, int *index, struct status *s)
{
    int flag = 0, result = shim_Testany(count, requests, index, &flag, s);
    for (int turn = 0; !flag; turn++) {
        nap(turn);
        result = shim_Testany(count, requests, index, &flag, s);
    }
    return result;
}

int shim_Testsome(int count, int *requests, int *done, int *indices, struct status *s)
{
    return some(count, requests, count, done, indices, s) ? ERR_IN_STATUS : 0;
}

int shim_Waitsome(int count, int *requests, int *done, int *indices, struct status *s)
{
    int result = shim_Testsome(count, requests, done, indices, s);
    for (int turn = 0; !*done; turn++) {
        nap(turn);
        result = shim_Testsome(count, requests, done, indices, s);
    }
    return result;
}

int shim_Request_get_status(int request, int *flag, struct status *s)
{
    bool done = true;
    struct request *r = request == REQUEST_NULL ? NULL : of(request);
    if (r) {
        message_ended(r, false, &done);
        *s = r->status;
    }
    *flag = done;
    return 0;
}

/* The program does not look at it again: its buffer must live on, so this waits for it. */
int shim_Request_free(int *request)
{
    struct status s;
    return shim_Wait(request, &s);
}

int shim_Cancel(int *request)
{
    struct request *r = of(*request);
    if (!r)
        return ERR_REQUEST;
    if (r->what == REQUEST_RECEIVE)
        message_cancel(r);
    return 0;
}
