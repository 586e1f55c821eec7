/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An executor carries out the calls of one rank of a communicator, on one kind
 * of memory and by one means. A communicator owns its executors and knows them
 * by this table alone. Sharing memory and kernels are means of an executor, not
 * questions that its callers ask. docs/executor.md.
 */
#ifndef TUTTI_ENGINE_EXECUTOR_H
#define TUTTI_ENGINE_EXECUTOR_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct call;
struct executor;
struct p2p_item;
struct window_item;
struct rank_fact;
struct team;

/* What an executor has found out about a call when it prepared it, for when it issues it. Others only keep it. */
struct executor_note {
    uint64_t word[24];
};

/* A collective of several that are issued at once, and what the executor takes over for it. */
struct executor_call {
    const struct call *call;
    const struct executor_note *note;
    void *owned; /* malloc'ed, or NULL */
    bool first;  /* of the communicator's collectives in the caller's group */
};

/* tutti_alltoallv_dynamic(): what its user says of lengths, and bytes of a row. */
struct dynamic_call {
    const void *in;
    void *out;
    size_t row;
    tutti_dynamic_t what;
};

struct executor_ops {
    const char *name;

    /*
     * Begins what may need the hosts of peers, such as memory that is made at
     * its first use. Calls that one thread issues for several ranks are all
     * prepared before any is issued, and none is issued that was not. NULL:
     * there is nothing to begin, nor to note.
     */
    tutti_result_t (*prepare)(struct executor *executor, const struct call *call, struct executor_note *note);

    /*
     * Issues a collective on the stream, without waiting for peers' work.
     * Takes over `owned` (malloc'ed, or NULL), also when it fails. Default:
     * an error.
     */
    tutti_result_t (*issue)(struct executor *executor, const struct call *call, void *owned, tutti_stream_t stream,
                            const struct executor_note *note);

    /*
     * Issues collectives on the stream, one behind another, up to the first
     * that fails. Takes over all that they own. Default: issue() of each.
     */
    tutti_result_t (*issue_many)(struct executor *executor, const struct executor_call *calls, int count,
                                 tutti_stream_t stream);

    /* Issues sends and receives that go on at the same time. Default: an error. */
    tutti_result_t (*messages)(struct executor *executor, const struct p2p_item *items, int count,
                               tutti_stream_t stream);

    /* Issues an exchange whose lengths are read when it runs; checked by the caller. Default: an error. */
    tutti_result_t (*dynamic)(struct executor *executor, const struct dynamic_call *call, tutti_stream_t stream);

    /*
     * Collective: all ranks register [buffer, buffer + size) of theirs, for
     * collectives on that memory. *out, which may be NULL, is given back by
     * unregister(), or is gone with the executor. Default: nothing is done.
     */
    tutti_result_t (*register_symmetric)(struct executor *executor, void *buffer, size_t size, void **out);
    /* The window that the memory of a registration is; NULL: it is none. Default: none is. */
    tutti_window_t (*symmetric_window)(struct executor *executor, void *registered);
    void (*unregister)(struct executor *executor, void *registered);

    /*
     * Windows. open, close: collective, and they wait: close until what this
     * rank has put into any window has landed, and all ranks have come. A
     * window that is not closed ends with the executor. calls: issues puts,
     * gets, signals and waits for them that go on at the same time, but those
     * of one peer in their order. address: where this process reaches a rank's
     * memory, NULL if it does not. Default: an error.
     */
    tutti_result_t (*window_open)(struct executor *executor, void *buffer, size_t size, tutti_window_t *out);
    tutti_result_t (*window_close)(struct executor *executor, tutti_window_t window);
    tutti_result_t (*window_calls)(struct executor *executor, const struct window_item *items, int count,
                                   tutti_stream_t stream);
    tutti_result_t (*window_address)(struct executor *executor, tutti_window_t window, int rank, void **address,
                                     size_t *size);
    /* Is it one of this executor's? Default: none is. */
    bool (*window_is_open)(const struct executor *executor, tutti_window_t window);

    /* What comes on `stream` follows what is on `before`. Default: an error. */
    tutti_result_t (*follow)(struct executor *executor, tutti_stream_t stream, tutti_stream_t before);

    /*
     * May another thread issue calls on the stream in the caller's stead?
     * Default: no.
     */
    bool (*any_thread)(struct executor *executor, tutti_stream_t stream);

    /*
     * Waits for what was issued, also after a failure: then nothing of the
     * user's is touched any more. Default: nothing is under way beside the
     * team's operations.
     */
    tutti_result_t (*wait)(struct executor *executor);

    /*
     * The user aborts: no call begins any more, and what peers have come to is brought to its end for a bounded time.
     * False: the executor cannot do that, and the team is to fail at once, which is the default.
     */
    bool (*give_up)(struct executor *executor);
    /* Waits until that has ended. Not called unless give_up() said true. */
    void (*wait_given_up)(struct executor *executor);

    /*
     * After wait(), if the team has failed, or if the executor is about to
     * end: waits, for a bounded time, until peers store nothing more to users'
     * memory. An error: which of it they may. Default: nobody does.
     */
    tutti_result_t (*settle)(struct executor *executor, bool ends);

    /*
     * The team's failure, also if so far only the executor's own memory tells
     * of it. Default: the executor knows nothing but what the team knows.
     */
    void (*hear)(struct executor *executor);

    /* May a collective be issued though the team has failed? Default: no. */
    bool (*goes_on)(struct executor *executor);

    /*
     * The user issues nothing more. Where the communicator has failed peers
     * are to hear so, when all that was issued has ended. Asked of executors
     * that use the team; of others the team says it. Default: nothing.
     */
    void (*end_calls)(struct executor *executor);

    /* What of the user's would end with the executor, such as windows; NULL: nothing. Any thread. Default: nothing. */
    const char *(*keeps)(const struct executor *executor);

    /* Bytes that the executor holds. Default: none. */
    void (*memory)(struct executor *executor, size_t *device_bytes, size_t *host_bytes);

    /*
     * Waits for this rank's work unless the team has failed, and frees the
     * executor. Default: it belongs to its team, and ends with that.
     */
    void (*close)(struct executor *executor);
};

struct executor {
    struct executor_ops ops; /* complete: a default stands where the executor has nothing of its own */
    int device;              /* CUDA ordinal of the memory, or TUTTI_HOST */
    bool on_streams;         /* one operation may be on several of the user's CUDA streams */
    bool uses_team;          /* its operations go by the team's queue, in threads of their own: nobody else may use that
                                meanwhile */
};

/* How an executor is to be made, of those on devices. */
struct executor_config {
    int device; /* CUDA ordinal; TUTTI_HOST: none of those */
    int blocks; /* of a kernel, at most; 0: the library's own number */
    int policy; /* TUTTI_POLICY_... */
};

/* For whom an executor is made. */
struct executor_members {
    struct team *team;
    struct team *near; /* by_hosts: the part of this rank's host, which is the executor's from then on; else NULL */
};

/* A kind of executor on devices: what can be asked while there is none yet. */
struct executor_kind {
    const char *name;
    /* Does it carry out what these ranks call? `shared`: all of them can share host memory. The same on all ranks,
     * unless it is by_hosts: then if all ranks say so. */
    bool (*takes)(const struct team *team, bool shared);
    /* The host memory that the ranks of an executor share; one rank makes it and hands the descriptor to the others.
     * NULL: they share none. */
    tutti_result_t (*create_shared)(int nranks, int *fd);
    /* The executor is not shared by all ranks, but by those of each host: a part of the team. */
    bool by_hosts;
    /* Collective over the team, which must outlive the executor. `shared`: the descriptor, which stays the caller's;
     * -1: there is none. */
    tutti_result_t (*open)(const struct executor_members *members, const struct executor_config *config, int shared,
                           struct executor **out);
};

/* All kinds, asked in this order: the first that takes a team carries out its calls. NULL ends the list. src/executor.
 */
extern const struct executor_kind *const executor_kinds[];

/* What can be asked of the devices of all kinds. */
struct executor_devices {
    int most_blocks; /* of a config */
    /* As the parameters say, on no device. */
    struct executor_config (*defaults)(void);
    /* What a rank on that device is to tell of it; what cannot be found out stays as it is. */
    void (*describe)(int device, struct rank_fact *out);
    /* The calling thread's current device. */
    tutti_result_t (*current_device)(int *ordinal);
    /* Memory of the current device that peers can map. */
    tutti_result_t (*memory_alloc)(void **out, size_t size);
    tutti_result_t (*memory_free)(void *pointer);
    /* Memory of the library's own on that device, which no peer maps. Freeing waits for nobody's work. */
    tutti_result_t (*keep)(int device, size_t size, void **out);
    void (*keep_no_more)(int device, void *memory);
    /* On the stream. */
    tutti_result_t (*copy)(int device, void *to, const void *from, size_t size, tutti_stream_t stream);
    /* An error for a stream that is being captured: what is issued there does not run, and cannot be waited for. */
    tutti_result_t (*runs)(int device, tutti_stream_t stream);
    /* Frees what closed executors have left on that device, if nothing is under way. */
    void (*sweep)(int device);
    /* Waits for all that is on the stream. */
    tutti_result_t (*drain)(int device, tutti_stream_t stream);
};

extern const struct executor_devices executor_devices;

/* Sets all of *out but leaves it to its owner's memory. Functions that are NULL in `ops` get their defaults. */
void executor_init(struct executor *out, const struct executor_ops *ops, int device);

#endif
