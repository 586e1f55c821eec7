/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages with tags and wildcards. The library matches the messages of a pair in the order of calls. So each direction
 * of a pair has a communicator of two (channel), and a thread at its receiving end.
 *
 * A short message is a header, with its contents in it or behind it: its receiver takes it at once, for whom it is or
 * into memory of its own. A long or a synchronous message asks first (ASK). Its receiver answers on the channel of the
 * other direction (COME) when a receive waits for it. Then the message comes (HERE).
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/comms.h"
#include "mpi/errors.h"
#include "mpi/messages.h"
#include "mpi/requests.h"
#include "mpi/shim.h"
#include "mpi/calls.h"
#include "tutti/tutti.h"

enum { HEADER_BYTES = sizeof(struct header), SHORT_BYTES = 64 << 10 };
enum { WORD_SHORT, WORD_ASK, WORD_COME, WORD_HERE, WORD_END };
enum { SENDER, RECEIVER };

struct message_arrival { /* a message that nobody waits for yet */
    struct message_arrival *next;
    struct header header;
    int source; /* of COMM_WORLD */
    char *contents;
    bool complete;
    struct request *taker;  /* the receive that wants it, while it is still coming */
    struct request *sender; /* of this process, who waits until somebody wants it */
};

static struct messages_channel {
    tutti_comm_t out, in;
    tutti_stream_t in_stream, end_stream;
    pthread_mutex_t issuing;
    pthread_t thread;
    bool runs, failed;
    char why[LONGEST_ERROR];
    struct header header, end;
} * channels;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all lists, and of requests' states */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct request *posted, *asking, *expected; /* receives; sends that asked; receives that are told to come */
static struct message_arrival *arrivals;
static uint64_t numbers;

static void append(struct request **list, struct request *r)
{
    while (*list)
        list = &(*list)->next;
    r->next = NULL;
    *list = r;
}

static bool take_out(struct request **list, struct request *r)
{
    for (; *list; list = &(*list)->next)
        if (*list == r) {
            *list = r->next;
            return true;
        }
    return false;
}

static struct request *numbered(struct request **list, int peer, uint64_t number)
{
    for (; *list; list = &(*list)->next)
        if ((*list)->number == number && (*list)->peer == peer) {
            struct request *r = *list;
            *list = r->next;
            return r;
        }
    return NULL;
}

static bool fits(int context, int from, int tag, const struct header *h, int source)
{
    return h->context == context && (from == ANY_SOURCE || from == source) && (tag == ANY_TAG || tag == h->tag);
}

static tutti_result_t put(int to, struct header *h, const void *contents, tutti_stream_t stream)
{
    struct messages_channel *ch = &channels[to];
    pthread_mutex_lock(&ch->issuing);
    tutti_result_t result = tutti_send(h, HEADER_BYTES, TUTTI_UINT8, RECEIVER, ch->out, stream);
    if (!result && contents && h->bytes)
        result = tutti_send(contents, h->bytes, TUTTI_UINT8, RECEIVER, ch->out, stream);
    pthread_mutex_unlock(&ch->issuing);
    return result;
}

static int here(const struct comm *c, int source)
{
    for (int r = 0; r < c->size; r++)
        if (c->world[r] == source)
            return r;
    return UNDEFINED;
}

/* Under the lock: what a receive is told of the message that it gets. */
static void describe(struct request *r, const struct header *h, int source)
{
    r->status.source = here(r->comm, source);
    r->status.tag = h->tag;
    r->status.bytes = (int64_t)(h->bytes < r->bytes ? h->bytes : r->bytes);
    if (h->bytes > r->bytes)
        r->status.error = ERR_TRUNCATE;
    r->peer = source;
}

static void complete(struct request *r)
{
    r->state = STATE_DONE;
    pthread_cond_broadcast(&changed);
}

/* Under the lock: a message that asks may come to r. */
static void call_in(struct request *r, const struct header *h, int source)
{
    describe(r, h, source);
    r->number = h->number;
    append(&expected, r);
    r->header = (struct header){.kind = WORD_COME, .number = h->number};
    pthread_mutex_unlock(&lock);
    tutti_result_t result = put(source, &r->header, NULL, r->stream);
    pthread_mutex_lock(&lock);
    if (result && take_out(&expected, r)) {
        r->status.error = ERR_OTHER;
        complete(r);
    }
}

static struct request *waiting_for(const struct header *h, int source)
{
    for (struct request **at = &posted; *at; at = &(*at)->next)
        if (fits((*at)->context, (*at)->peer, (*at)->tag, h, source)) {
            struct request *r = *at;
            *at = r->next;
            return r;
        }
    return NULL;
}

static struct message_arrival *note(const struct header *h, int source)
{
    struct message_arrival *a = calloc(1, sizeof(*a)), **end = &arrivals;
    if (!a)
        return NULL;
    a->header = *h;
    a->source = source;
    while (*end)
        end = &(*end)->next;
    *end = a;
    pthread_cond_broadcast(&changed);
    return a;
}

/* Contents of a message, behind its header, into `place`; without room for all, what there is room for. */
static tutti_result_t fetch(struct messages_channel *ch, const struct header *h, void *place, size_t room)
{
    if (h->kind == WORD_SHORT && h->bytes <= INLINE_BYTES) {
        memcpy(place, h->contents, h->bytes < room ? h->bytes : room);
        return TUTTI_SUCCESS;
    }
    if (!h->bytes)
        return TUTTI_SUCCESS;
    char *whole = h->bytes > room ? malloc(h->bytes) : place;
    if (!whole)
        return TUTTI_SYSTEM_ERROR;
    tutti_result_t result = tutti_recv(whole, h->bytes, TUTTI_UINT8, SENDER, ch->in, ch->in_stream);
    if (!result)
        result = tutti_stream_synchronize(ch->in_stream);
    if (whole != place) {
        memcpy(place, whole, room);
        free(whole);
    }
    return result;
}

static tutti_result_t take_short(struct messages_channel *ch, const struct header *h, int source)
{
    pthread_mutex_lock(&lock);
    struct request *r = waiting_for(h, source);
    struct message_arrival *a = r ? NULL : note(h, source);
    if (r)
        describe(r, h, source);
    pthread_mutex_unlock(&lock);
    if (!r && (!a || !(a->contents = malloc(h->bytes ? h->bytes : 1))))
        return TUTTI_SYSTEM_ERROR;
    tutti_result_t result = fetch(ch, h, r ? r->buffer : a->contents, r ? r->bytes : h->bytes);
    pthread_mutex_lock(&lock);
    if (result && r)
        r->status.error = ERR_OTHER;
    if (r) {
        complete(r);
    } else {
        a->complete = !result;
        if (a->taker) { /* it was asked for meanwhile */
            memcpy(a->taker->buffer, a->contents, a->taker->status.bytes);
            complete(a->taker);
            free(a->contents);
            free(a);
        }
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static tutti_result_t take_asking(const struct header *h, int source)
{
    pthread_mutex_lock(&lock);
    struct request *r = waiting_for(h, source);
    bool kept = r || note(h, source);
    if (r)
        call_in(r, h, source);
    pthread_mutex_unlock(&lock);
    return kept ? TUTTI_SUCCESS : TUTTI_SYSTEM_ERROR;
}

static tutti_result_t let_go(const struct header *h, int source)
{
    pthread_mutex_lock(&lock);
    struct request *r = numbered(&asking, source, h->number);
    pthread_mutex_unlock(&lock);
    if (!r)
        return TUTTI_INTERNAL_ERROR;
    r->data = (struct header){.kind = WORD_HERE, .number = h->number, .bytes = r->bytes};
    tutti_result_t result = put(source, &r->data, r->buffer, r->stream);
    pthread_mutex_lock(&lock);
    r->status.error = result ? ERR_OTHER : 0;
    r->state = STATE_MOVES;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return result;
}

static tutti_result_t take_long(struct messages_channel *ch, const struct header *h, int source)
{
    pthread_mutex_lock(&lock);
    struct request *r = numbered(&expected, source, h->number);
    pthread_mutex_unlock(&lock);
    if (!r)
        return TUTTI_INTERNAL_ERROR;
    tutti_result_t result = fetch(ch, h, r->buffer, r->bytes);
    pthread_mutex_lock(&lock);
    if (result)
        r->status.error = ERR_OTHER;
    complete(r);
    pthread_mutex_unlock(&lock);
    return result;
}

static void fail_list(struct request **list, int source)
{
    while (*list) {
        struct request *r = *list;
        if (r->peer == source || (r->peer == ANY_SOURCE && here(r->comm, source) >= 0)) {
            *list = r->next;
            r->status.error = ERR_OTHER;
            r->peer = source;
            complete(r);
        } else {
            list = &r->next;
        }
    }
}

/* The peer is lost: what waits for it fails. */
static void give_up(struct messages_channel *ch, int source)
{
    pthread_mutex_lock(&lock);
    ch->failed = true;
    pthread_detach(pthread_self()); /* a program that has lost a rank need not call MPI_Finalize */
    snprintf(ch->why, sizeof(ch->why),
             "messages of rank %d of MPI_COMM_WORLD, which is rank 0 of their own communicator: %s", source,
             tutti_get_last_error(ch->in));
    fail_list(&posted, source);
    fail_list(&asking, source);
    fail_list(&expected, source);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void *receive(void *argument)
{
    int source = (int)(intptr_t)argument;
    struct messages_channel *ch = &channels[source];
    struct header *h = &ch->header;
    for (;;) {
        tutti_result_t result = tutti_recv(h, HEADER_BYTES, TUTTI_UINT8, SENDER, ch->in, ch->in_stream);
        if (!result)
            result = tutti_stream_synchronize(ch->in_stream);
        if (!result && h->kind == WORD_END)
            return NULL;
        if (!result)
            result = h->kind == WORD_SHORT  ? take_short(ch, h, source)
                     : h->kind == WORD_ASK  ? take_asking(h, source)
                     : h->kind == WORD_COME ? let_go(h, source)
                                            : take_long(ch, h, source);
        if (result) {
            give_up(ch, source);
            return NULL;
        }
    }
}

/* Both directions of each pair, in rounds in which each rank meets one other: k - r and r meet in round k. */
static tutti_result_t connect_all(void)
{
    struct comm *all = world.comm;
    int n = all->size;
    for (int round = 0; round < n; round++) {
        int peer = ((round - all->rank) % n + n) % n, low = peer < all->rank ? peer : all->rank;
        for (int down = 0; down < 2; down++) {
            tutti_comm_t made = NULL;
            bool alone = peer == all->rank, sends = (all->rank < peer) != (down == 1);
            tutti_result_t result =
                tutti_comm_split(all->tutti, alone ? TUTTI_SPLIT_NOCOLOR : low, sends ? SENDER : RECEIVER, &made, NULL);
            if (result)
                return result;
            if (!alone)
                *(sends ? &channels[peer].out : &channels[peer].in) = made;
        }
    }
    return TUTTI_SUCCESS;
}

int messages_start(void)
{
    int n = world.comm->size;
    channels = calloc(n, sizeof(*channels));
    if (!channels)
        return shim_fail(NULL, ERR_NO_MEM, "MPI_Init: no memory for channels");
    int result = shim_result(world.comm, "MPI_Init", connect_all());
    for (int peer = 0; !result && peer < n; peer++) {
        struct messages_channel *ch = &channels[peer];
        pthread_mutex_init(&ch->issuing, NULL);
        if (peer == world.comm->rank)
            continue;
        result = shim_result(world.comm, "MPI_Init", tutti_stream_create(&ch->in_stream));
        if (!result)
            result = shim_result(world.comm, "MPI_Init", tutti_stream_create(&ch->end_stream));
        if (!result && pthread_create(&ch->thread, NULL, receive, (void *)(intptr_t)peer))
            result = shim_fail(NULL, ERR_OTHER, "MPI_Init: no thread for the messages of rank %d", peer);
        ch->runs = !result;
    }
    return result;
}

void messages_end(void)
{
    for (int peer = 0; peer < world.comm->size; peer++)
        if (channels[peer].runs) {
            channels[peer].end.kind = WORD_END;
            put(peer, &channels[peer].end, NULL, channels[peer].end_stream);
        }
    for (int peer = 0; peer < world.comm->size; peer++) {
        struct messages_channel *ch = &channels[peer];
        if (!ch->runs)
            continue;
        pthread_mutex_lock(&lock);
        bool joins = !ch->failed;
        pthread_mutex_unlock(&lock);
        if (joins)
            pthread_join(ch->thread, NULL);
        tutti_stream_synchronize(ch->end_stream);
        tutti_comm_destroy(ch->in);
        tutti_comm_destroy(ch->out);
        tutti_stream_destroy(ch->in_stream);
        tutti_stream_destroy(ch->end_stream);
    }
}

/* ---- What the calls use ---- */

/* To this process itself: the contents are kept until somebody asks. */
static int send_to_self(const void *buffer, struct request *s, bool synchronous)
{
    pthread_mutex_lock(&lock);
    struct request *r = waiting_for(&s->header, s->peer);
    struct message_arrival *a = NULL;
    if (r) {
        describe(r, &s->header, s->peer);
        memcpy(r->buffer, buffer, r->status.bytes);
        complete(r);
    } else if ((a = note(&s->header, s->peer)) && (a->contents = malloc(s->bytes ? s->bytes : 1))) {
        memcpy(a->contents, buffer, s->bytes);
        a->complete = true;
        a->sender = synchronous ? s : NULL;
    }
    if (!a || !a->sender)
        complete(s);
    pthread_mutex_unlock(&lock);
    return r || (a && a->contents) ? 0
                                   : shim_fail(s->comm, ERR_NO_MEM, "no memory for a message to the process itself");
}

int message_send(const void *buffer, size_t bytes, int to, int tag, struct comm *c, bool synchronous,
                 struct request **made)
{
    struct request *r = request_new(REQUEST_SEND, c);
    if (!r)
        return ERR_NO_MEM;
    *made = r;
    if (to == PROC_NULL) {
        r->state = STATE_DONE;
        return 0;
    }
    r->peer = c->world[to];
    r->buffer = (void *)buffer;
    r->bytes = bytes;
    r->header = (struct header){.kind = WORD_SHORT, .context = c->context, .tag = tag, .bytes = bytes};
    if (r->peer == world.comm->rank)
        return send_to_self(buffer, r, synchronous);
    bool asks = synchronous || bytes > SHORT_BYTES;
    if (!asks && bytes <= INLINE_BYTES)
        memcpy(r->header.contents, buffer, bytes);
    pthread_mutex_lock(&lock);
    if (channels[r->peer].failed) {
        pthread_mutex_unlock(&lock);
        int peer = r->peer;
        request_drop(r);
        return shim_fail(c, ERR_OTHER, "%s", channels[peer].why);
    }
    r->state = asks ? STATE_WAITS : STATE_MOVES;
    if (asks) {
        r->header.kind = WORD_ASK;
        r->number = r->header.number = ++numbers;
        append(&asking, r);
    }
    pthread_mutex_unlock(&lock);
    bool behind = !asks && bytes > INLINE_BYTES;
    return shim_result(c, "a message of MPI", put(r->peer, &r->header, behind ? buffer : NULL, r->stream));
}

/* Under the lock, taken out of the list: what has arrived goes to r. */
static void hand_over(struct message_arrival *a, struct request *r)
{
    if (a->header.kind == WORD_ASK) {
        call_in(r, &a->header, a->source);
        free(a);
        return;
    }
    describe(r, &a->header, a->source);
    if (!a->complete) {
        a->taker = r;
        return;
    }
    memcpy(r->buffer, a->contents, r->status.bytes);
    complete(r);
    if (a->sender)
        complete(a->sender);
    free(a->contents);
    free(a);
}

/* Under the lock: a member that is lost, so that nothing may come from `source` any more; -1: there is none. */
static int lost(const struct comm *c, int source)
{
    for (int r = 0; r < c->size; r++) {
        int member = c->world[r];
        if ((source == ANY_SOURCE || source == member) && channels[member].failed)
            return member;
    }
    return -1;
}

const char *message_why(int peer)
{
    return peer >= 0 && peer < world.comm->size ? channels[peer].why : "";
}

static struct message_arrival **look(int context, int from, int tag)
{
    struct message_arrival **a = &arrivals;
    while (*a && !fits(context, from, tag, &(*a)->header, (*a)->source))
        a = &(*a)->next;
    return a;
}

int message_receive(void *buffer, size_t bytes, int from, int tag, struct comm *c, struct request **made)
{
    struct request *r = request_new(REQUEST_RECEIVE, c);
    if (!r)
        return ERR_NO_MEM;
    *made = r;
    r->buffer = buffer;
    r->bytes = bytes;
    r->tag = tag;
    r->context = c->context;
    if (from == PROC_NULL) {
        r->state = STATE_DONE;
        r->status = (struct status){PROC_NULL, ANY_TAG, 0, 0, 0};
        return 0;
    }
    r->peer = from == ANY_SOURCE ? ANY_SOURCE : c->world[from];
    pthread_mutex_lock(&lock);
    struct message_arrival **at = look(c->context, r->peer, tag), *a = *at;
    int gone = a ? -1 : lost(c, r->peer);
    if (a) {
        *at = a->next;
        hand_over(a, r);
    } else if (gone < 0) {
        append(&posted, r);
    }
    pthread_mutex_unlock(&lock);
    if (gone < 0)
        return 0;
    request_drop(r);
    return shim_fail(c, ERR_OTHER, "%s", channels[gone].why);
}

int arrival_find(int from, int tag, struct comm *c, bool wait, bool take, struct message_arrival **found,
                 struct status *s)
{
    int source = from == ANY_SOURCE ? ANY_SOURCE : c->world[from];
    pthread_mutex_lock(&lock);
    struct message_arrival **at;
    int gone = -1;
    while (!*(at = look(c->context, source, tag)) && wait && (gone = lost(c, source)) < 0)
        pthread_cond_wait(&changed, &lock);
    struct message_arrival *a = *at;
    if (a) {
        *s = (struct status){here(c, a->source), a->header.tag, 0, 0, (int64_t)a->header.bytes};
        if (take)
            *at = a->next;
    }
    pthread_mutex_unlock(&lock);
    *found = a;
    return a || !wait ? 0 : shim_fail(c, ERR_OTHER, "%s", channels[gone].why);
}

void arrival_receive(struct message_arrival *a, struct request *r, void *buffer, size_t bytes)
{
    r->buffer = buffer;
    r->bytes = bytes;
    pthread_mutex_lock(&lock);
    hand_over(a, r);
    pthread_mutex_unlock(&lock);
}

tutti_result_t message_ended(struct request *r, bool wait, bool *done)
{
    pthread_mutex_lock(&lock);
    while (wait && r->state == STATE_WAITS)
        pthread_cond_wait(&changed, &lock);
    enum state state = r->state;
    pthread_mutex_unlock(&lock);
    *done = state == STATE_DONE;
    if (state != STATE_MOVES)
        return TUTTI_SUCCESS;
    tutti_result_t result = wait ? tutti_stream_synchronize(r->stream) : tutti_stream_query(r->stream);
    *done = result != TUTTI_IN_PROGRESS;
    return result == TUTTI_IN_PROGRESS ? TUTTI_SUCCESS : result;
}

bool message_cancel(struct request *r)
{
    pthread_mutex_lock(&lock);
    bool out = take_out(&posted, r);
    if (out) {
        r->status.cancelled = 1;
        complete(r);
    }
    pthread_mutex_unlock(&lock);
    return out;
}
