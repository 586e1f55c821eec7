/* SPDX-License-Identifier: Apache-2.0 */
/* Sends, receives and probes: arguments are checked here, messages.c carries. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/comms.h"
#include "mpi/errors.h"
#include "mpi/messages.h"
#include "mpi/objects.h"
#include "mpi/requests.h"
#include "mpi/shim.h"
#include "mpi/types.h"
#include "mpi/calls.h"

/* Bytes of a buffer, or an error. */
static int measure(struct comm *c, int count, int type_handle, int peer, int tag, bool receives, size_t *bytes)
{
    struct type type;
    if (!c)
        return ERR_COMM;
    if (count < 0)
        return shim_fail(c, ERR_COUNT, "a message of %d elements", count);
    if (!type_of(type_handle, &type))
        return ERR_TYPE;
    if (peer != PROC_NULL && !(receives && peer == ANY_SOURCE) && (peer < 0 || peer >= c->size))
        return shim_fail(c, ERR_RANK, "rank %d is not in this communicator of %d ranks", peer, c->size);
    if ((tag < 0 && !(receives && tag == ANY_TAG)) || tag > TAG_MOST)
        return shim_fail(c, ERR_TAG, "tag %d: tags are 0 to %d", tag, TAG_MOST);
    *bytes = (size_t)count * type.size;
    return 0;
}

static int begin_send(const void *buffer, int count, int type, int to, int tag, int comm, bool synchronous,
                      struct request **r)
{
    struct comm *c = comm_of(comm);
    size_t bytes = 0;
    int wrong = measure(c, count, type, to, tag, false, &bytes);
    return wrong ? wrong : message_send(buffer, bytes, to, tag, c, synchronous, r);
}

static int begin_receive(void *buffer, int count, int type, int from, int tag, int comm, struct request **r)
{
    struct comm *c = comm_of(comm);
    size_t bytes = 0;
    int wrong = measure(c, count, type, from, tag, true, &bytes);
    return wrong ? wrong : message_receive(buffer, bytes, from, tag, c, r);
}

static int send_now(const void *buffer, int count, int type, int to, int tag, int comm, bool synchronous)
{
    struct request *r = NULL;
    struct status s;
    int wrong = begin_send(buffer, count, type, to, tag, comm, synchronous, &r);
    return wrong ? wrong : request_wait(r, &s);
}

static int send_later(const void *buffer, int count, int type, int to, int tag, int comm, bool synchronous,
                      int *request)
{
    struct request *r = NULL;
    int wrong = begin_send(buffer, count, type, to, tag, comm, synchronous, &r);
    return wrong ? wrong : request_give(r, request);
}

int shim_Send(const void *buffer, int count, int type, int to, int tag, int comm)
{
    return send_now(buffer, count, type, to, tag, comm, false);
}

int shim_Rsend(const void *buffer, int count, int type, int to, int tag, int comm)
{
    return send_now(buffer, count, type, to, tag, comm, false);
}

int shim_Ssend(const void *buffer, int count, int type, int to, int tag, int comm)
{
    return send_now(buffer, count, type, to, tag, comm, true);
}

int shim_Isend(const void *buffer, int count, int type, int to, int tag, int comm, int *request)
{
    return send_later(buffer, count, type, to, tag, comm, false, request);
}

int shim_Irsend(const void *buffer, int count, int type, int to, int tag, int comm, int *request)
{
    return send_later(buffer, count, type, to, tag, comm, false, request);
}

int shim_Issend(const void *buffer, int count, int type, int to, int tag, int comm, int *request)
{
    return send_later(buffer, count, type, to, tag, comm, true, request);
}

int shim_Recv(void *buffer, int count, int type, int from, int tag, int comm, struct status *s)
{
    struct request *r = NULL;
    int wrong = begin_receive(buffer, count, type, from, tag, comm, &r);
    return wrong ? wrong : request_wait(r, s);
}

int shim_Irecv(void *buffer, int count, int type, int from, int tag, int comm, int *request)
{
    struct request *r = NULL;
    int wrong = begin_receive(buffer, count, type, from, tag, comm, &r);
    return wrong ? wrong : request_give(r, request);
}

int shim_Sendrecv(const void *out, int out_count, int out_type, int to, int out_tag, void *in, int in_count,
                  int in_type, int from, int in_tag, int comm, struct status *s)
{
    struct request *receives, *sends;
    struct status ignored;
    int wrong = begin_receive(in, in_count, in_type, from, in_tag, comm, &receives);
    if (!wrong)
        wrong = begin_send(out, out_count, out_type, to, out_tag, comm, false, &sends);
    if (wrong)
        return wrong;
    wrong = request_wait(sends, &ignored);
    int late = request_wait(receives, s);
    return wrong ? wrong : late;
}

int shim_Sendrecv_replace(void *buffer, int count, int type, int to, int out_tag, int from, int in_tag, int comm,
                          struct status *s)
{
    size_t bytes = 0;
    int wrong = measure(comm_of(comm), count, type, to, out_tag, false, &bytes);
    if (wrong)
        return wrong;
    void *copy = malloc(bytes ? bytes : 1);
    if (!copy)
        return shim_fail(NULL, ERR_NO_MEM, "MPI_Sendrecv_replace: no %zu bytes", bytes);
    memcpy(copy, buffer, bytes);
    wrong = shim_Sendrecv(copy, count, type, to, out_tag, buffer, count, type, from, in_tag, comm, s);
    free(copy);
    return wrong;
}

/* ---- Buffered sends: the copy is the library's own ---- */

static int keep_copy(struct request *r)
{
    return 0; /* request_drop() frees it */
}

static int buffered(const void *buffer, int count, int type, int to, int tag, int comm, int *request)
{
    struct comm *c = comm_of(comm);
    size_t bytes = 0;
    struct request *r = NULL;
    int wrong = measure(c, count, type, to, tag, false, &bytes);
    if (wrong)
        return wrong;
    void *copy = malloc(bytes ? bytes : 1);
    if (!copy)
        return shim_fail(c, ERR_BUFFER, "a buffered send: no %zu bytes", bytes);
    memcpy(copy, buffer, bytes);
    wrong = message_send(copy, bytes, to, tag, c, false, &r);
    if (wrong)
        return wrong;
    r->room = copy;
    r->finish = keep_copy;
    return request_give(r, request);
}

int shim_Ibsend(const void *buffer, int count, int type, int to, int tag, int comm, int *request)
{
    return buffered(buffer, count, type, to, tag, comm, request);
}

static struct points_kept {
    struct points_kept *next;
    int request;
} * kept;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

/* Buffered sends that nobody holds: those that are over are freed; with `wait` all are. */
void buffered_reap(bool wait)
{
    struct status s;
    pthread_mutex_lock(&kept_lock);
    for (struct points_kept **at = &kept; *at;) {
        struct points_kept *k = *at;
        int done = 1;
        if (wait)
            shim_Wait(&k->request, &s);
        else
            shim_Test(&k->request, &done, &s);
        if (done) {
            *at = k->next;
            free(k);
        } else {
            at = &k->next;
        }
    }
    pthread_mutex_unlock(&kept_lock);
}

/* A buffered send ends at once. */
int shim_Bsend(const void *buffer, int count, int type, int to, int tag, int comm)
{
    struct points_kept *k = malloc(sizeof(*k));
    if (!k)
        return shim_fail(NULL, ERR_BUFFER, "MPI_Bsend: no memory");
    buffered_reap(false);
    int wrong = buffered(buffer, count, type, to, tag, comm, &k->request);
    if (wrong) {
        free(k);
        return wrong;
    }
    pthread_mutex_lock(&kept_lock);
    k->next = kept;
    kept = k;
    pthread_mutex_unlock(&kept_lock);
    return 0;
}

static void *attached;
static int attached_bytes;

int shim_Buffer_attach(void *buffer, int size)
{
    attached = buffer;
    attached_bytes = size;
    return 0;
}

int shim_Buffer_detach(void *buffer, int *size)
{
    buffered_reap(true);
    memcpy(buffer, &attached, sizeof(attached));
    *size = attached_bytes;
    attached = NULL;
    attached_bytes = 0;
    return 0;
}

/* ---- Probes ---- */

static int probe(int from, int tag, int comm, bool wait, bool take, struct message_arrival **found, struct status *s)
{
    struct comm *c = comm_of(comm);
    size_t bytes = 0;
    *found = NULL;
    int wrong = measure(c, 0, 0x4c00010d, from, tag, true, &bytes);
    if (wrong)
        return wrong;
    if (from == PROC_NULL) {
        *s = (struct status){PROC_NULL, ANY_TAG, 0, 0, 0};
        return 0;
    }
    return arrival_find(from, tag, c, wait, take, found, s);
}

int shim_Probe(int from, int tag, int comm, struct status *s)
{
    struct message_arrival *found;
    return probe(from, tag, comm, true, false, &found, s);
}

int shim_Iprobe(int from, int tag, int comm, int *flag, struct status *s)
{
    struct message_arrival *found;
    int result = probe(from, tag, comm, false, false, &found, s);
    *flag = found || from == PROC_NULL;
    return result;
}

/* A message that was taken out of the list, and the communicator that it came on. */
struct taken {
    struct message_arrival *arrival;
    struct comm *comm;
};

static int keep(struct message_arrival *found, int from, int comm, int *message)
{
    *message = from == PROC_NULL ? MESSAGE_NO_PROC : MESSAGE_NULL;
    if (!found)
        return 0;
    struct taken *t = malloc(sizeof(*t));
    if (t)
        *t = (struct taken){found, comm_of(comm)};
    *message = t ? object_new(KIND_MESSAGE, t) : 0;
    return *message ? 0 : shim_fail(NULL, ERR_NO_MEM, "no memory for a message");
}

int shim_Mprobe(int from, int tag, int comm, int *message, struct status *s)
{
    struct message_arrival *found;
    int result = probe(from, tag, comm, true, true, &found, s);
    return result ? result : keep(found, from, comm, message);
}

int shim_Improbe(int from, int tag, int comm, int *flag, int *message, struct status *s)
{
    struct message_arrival *found;
    int result = probe(from, tag, comm, false, true, &found, s);
    *flag = found || from == PROC_NULL;
    return result ? result : keep(found, from, comm, message);
}

static int begin_taken(void *buffer, int count, int type_handle, int *message, struct request **r)
{
    struct type type;
    struct taken *t = *message == MESSAGE_NO_PROC ? NULL : object_get(KIND_MESSAGE, *message);
    if (!t && *message != MESSAGE_NO_PROC)
        return shim_fail(NULL, ERR_REQUEST, "there is no message of handle 0x%x", (unsigned)*message);
    if (!type_of(type_handle, &type))
        return ERR_TYPE;
    int handle = *message;
    *message = MESSAGE_NULL;
    if (!t)
        return message_receive(buffer, 0, PROC_NULL, ANY_TAG, world.comm, r);
    *r = request_new(REQUEST_RECEIVE, t->comm);
    if (!*r)
        return ERR_NO_MEM;
    object_free(KIND_MESSAGE, handle);
    arrival_receive(t->arrival, *r, buffer, (size_t)count * type.size);
    free(t);
    return 0;
}

int shim_Mrecv(void *buffer, int count, int type, int *message, struct status *s)
{
    struct request *r = NULL;
    int wrong = begin_taken(buffer, count, type, message, &r);
    return wrong ? wrong : request_wait(r, s);
}

int shim_Imrecv(void *buffer, int count, int type, int *message, int *request)
{
    struct request *r = NULL;
    int wrong = begin_taken(buffer, count, type, message, &r);
    return wrong ? wrong : request_give(r, request);
}
