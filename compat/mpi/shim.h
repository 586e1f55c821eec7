/* SPDX-License-Identifier: Apache-2.0 */
/* MPI's calls over tutti's. Handles are numbers, as in MPICH; the faces (generate.py) make them what a caller's ABI
 * has. */
#ifndef COMPAT_MPI_SHIM_H
#define COMPAT_MPI_SHIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/tutti.h>

typedef intptr_t MPI_Aint;
typedef int64_t MPI_Count;

enum abi { ABI_MPICH, ABI_TRAMPOLINE };

/* Numbers of MPICH's ABI: constants.txt has all of them. */
enum {
    COMM_NULL = 0x04000000,
    COMM_WORLD = 0x44000000,
    COMM_SELF = 0x44000001,
    GROUP_NULL = 0x08000000,
    GROUP_EMPTY = 0x48000000,
    TYPE_NULL = 0x0c000000,
    OP_NULL = 0x18000000,
    REQUEST_NULL = 0x2c000000,
    MESSAGE_NULL = 0x2c000000,
    MESSAGE_NO_PROC = 0x6c000000,
    ERRHANDLER_NULL = 0x14000000,
    ERRORS_ARE_FATAL = 0x54000000,
    ERRORS_RETURN = 0x54000001,
    KEYVAL_INVALID = 0x24000000,
    ANY_SOURCE = -2,
    ANY_TAG = -1,
    PROC_NULL = -1,
    UNDEFINED = -32766,
    TAG_MOST = 0x3fffffff,
    LONGEST_NAME = 128,
    LONGEST_ERROR = 512
};
enum {
    ERR_BUFFER = 1,
    ERR_COUNT = 2,
    ERR_TYPE = 3,
    ERR_TAG = 4,
    ERR_COMM = 5,
    ERR_RANK = 6,
    ERR_ROOT = 7,
    ERR_GROUP = 8,
    ERR_OP = 9,
    ERR_ARG = 12,
    ERR_TRUNCATE = 14,
    ERR_OTHER = 15,
    ERR_IN_STATUS = 17,
    ERR_PENDING = 18,
    ERR_REQUEST = 19,
    ERR_NO_MEM = 34,
    ERR_KEYVAL = 48,
    ERR_UNSUPPORTED = 44
};
#define IN_PLACE ((void *)-1)

struct status {
    int source, tag, error, cancelled;
    int64_t bytes;
};
#define EMPTY_STATUS                                                                                                   \
    {                                                                                                                  \
        ANY_SOURCE, ANY_TAG, 0, 0, 0                                                                                   \
    }

/* ---- Numbers for objects ---- */
enum kind { KIND_COMM, KIND_GROUP, KIND_TYPE, KIND_OP, KIND_REQUEST, KIND_MESSAGE, KIND_COUNT };
int object_new(enum kind kind, void *object); /* 0: no memory */
void *object_get(enum kind kind, int handle); /* NULL: there is none */
void object_free(enum kind kind, int handle);

/* ---- Errors ---- */
struct comm;
/* Says the sentence on stderr, keeps it for Error_string, and returns `class`; ends the process where the
 * communicator's handler says so. c NULL: that of COMM_WORLD. */
int shim_fail(struct comm *c, int class, const char *format, ...) __attribute__((format(printf, 3, 4)));
int shim_result(struct comm *c, const char *call, tutti_result_t result);
int shim_refuse(const char *name);

/* ---- Communicators ---- */
struct attribute {
    struct attribute *next;
    int keyval;
    void *value;
};
struct comm {
    tutti_comm_t tutti;
    int handle, rank, size, context, errhandler;
    int *world; /* rank here -> rank in COMM_WORLD */
    pthread_mutex_t lock;
    struct attribute *attributes;
    char name[LONGEST_NAME];
};
extern struct world {
    struct comm *comm, *self;
    int begun, ended, level; /* of threads */
    pthread_t main;
    enum abi abi;
} world;
struct comm *comm_of(int handle); /* NULL, and said, if there is none */
struct comm *comm_adopt(tutti_comm_t made, const struct comm *parent, int handle);
void comm_drop(struct comm *c);
int attributes_copy(struct comm *from, struct comm *to);
int attributes_drop(struct comm *c);
int mpi_copy_attribute(int handle, int keyval, void *extra, void *in, void *out, int *flag);

struct group {
    int size;
    int ranks[]; /* of COMM_WORLD */
};
struct group *group_of(int handle);

/* ---- Types and operators ---- */
enum basic {
    BASIC_NONE,
    BASIC_I8,
    BASIC_U8,
    BASIC_I16,
    BASIC_U16,
    BASIC_I32,
    BASIC_U32,
    BASIC_I64,
    BASIC_U64,
    BASIC_F32,
    BASIC_F64,
    BASIC_LONG_DOUBLE,
    BASIC_C64,
    BASIC_C128,
    BASIC_BOOL,
    BASIC_FLOAT_INT,
    BASIC_DOUBLE_INT,
    BASIC_LONG_INT,
    BASIC_SHORT_INT,
    BASIC_2INT
};
struct type {
    size_t size; /* bytes, without holes */
    enum basic basic;
    size_t items; /* basic ones in it */
    const char *name;
};
bool type_of(int handle, struct type *type); /* false, and said */
struct op {
    void *function;
    int commutes;
    enum abi abi;
    int number; /* of a built-in one: 1 maximum ... 12 maximum with its place */
};
bool op_of(int handle, struct op *op);
/* inout = in op inout, `count` elements of the type; an error class and a sentence where the type has no such operator.
 */
int fold(const struct op *op, int type_handle, const struct type *type, const void *in, void *inout, size_t count);
bool op_of_tutti(const struct op *op, const struct type *type, tutti_op_t *number, tutti_type_t *element);

/* ---- Requests ---- */
enum state { STATE_WAITS, STATE_MOVES, STATE_DONE };
#define INLINE_BYTES 208
struct header { /* what announces a message */
    int32_t kind, context, tag, padding;
    uint64_t bytes, number;
    char contents[INLINE_BYTES];
};
struct request {
    struct request *next;
    enum { REQUEST_SEND, REQUEST_RECEIVE, REQUEST_COLLECTIVE } what;
    enum state state; /* waits: for a peer's word; moves: as `stream` says */
    tutti_stream_t stream;
    struct comm *comm;
    struct status status;
    int peer; /* of COMM_WORLD, or ANY_SOURCE */
    int tag, context;
    void *buffer;
    size_t bytes;
    uint64_t number;
    struct header header, data;
    /* Collectives: what is to do when the stream has come to its end */
    int (*finish)(struct request *);
    void *room;
    const void *in;
    void *out;
    size_t count;
    struct op op;
    int type_handle, first, last;
    struct type type;
};
struct request *request_new(int what, struct comm *c);
void request_drop(struct request *r);
int request_wait(struct request *r, struct status *s); /* frees it */
int request_give(struct request *r, int *handle);

/* ---- Messages ---- */
int messages_start(void);
void messages_end(void);
int message_send(const void *buffer, size_t bytes, int to, int tag, struct comm *c, bool synchronous,
                 struct request **made);
int message_receive(void *buffer, size_t bytes, int from, int tag, struct comm *c, struct request **made);
/* Waits, or only looks: *done tells. Under no lock of the caller. */
tutti_result_t message_ended(struct request *r, bool wait, bool *done);
bool message_cancel(struct request *r);
void buffered_reap(bool wait);
const char *message_why(int peer); /* what was found when the peer was lost */
struct arrival;
int arrival_find(int from, int tag, struct comm *c, bool wait, bool take, struct arrival **found, struct status *s);
void arrival_receive(struct arrival *a, struct request *r, void *buffer, size_t bytes);

#endif
