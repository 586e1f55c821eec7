/* SPDX-License-Identifier: Apache-2.0 */
/*
 * badmemory TRANSPORT: one rank gives memory to a call that cannot be read, or not be written. The fault is the call's:
 * the call fails there, with the rank, the call and the address. The peer hears whose fault it was. What another
 * communicator has under way between the two goes on, as does what comes after. A peer that may not read what it could
 * is nobody's fault: the message goes another way.
 */
#include "family.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE   4096u
#define LENGTH (4u << 20)  /* bytes of a message, */
#define LENT   (96u << 10) /* and of one that its receiver copies from where it lies, at first sight */
#define CLEAN  (8u << 20)  /* bytes of the other communicator's message */

enum { INNOCENT, GUILTY, RANKS };
enum harm { PROTECTED, HALF, HOLED, CUT, NONE };
enum where { EVERYWHERE, LINKS, SHARED };
enum deed { SENDS, RECEIVES, SENDS_ITSELF, RECEIVES_ITSELF, BROADCASTS, TRADES, IS_FILLED };

static const struct variant {
    const char *name;
    enum harm harm;
    enum deed deed;
    enum where where;
    size_t lent; /* bytes; 0: LENGTH */
} variants[] = {
    {"send of a protected buffer", PROTECTED, SENDS, EVERYWHERE},
    {"send of a buffer whose second half is not mapped", HALF, SENDS, EVERYWHERE},
    {"send of a buffer with a hole", HOLED, SENDS, EVERYWHERE},
    {"send of a file that was cut short", CUT, SENDS, EVERYWHERE},
    {"broadcast of a buffer with a hole", HOLED, BROADCASTS, LINKS},
    {"alltoall of a buffer with a hole", HOLED, TRADES, SHARED},
    {"alltoall into a buffer with a hole", HOLED, IS_FILLED, SHARED},
    {"receive into a protected buffer", PROTECTED, RECEIVES, EVERYWHERE},
    {"receive into a buffer whose second half is not mapped", HALF, RECEIVES, EVERYWHERE},
    {"receive into a buffer with a hole", HOLED, RECEIVES, EVERYWHERE},
    {"receive into a file that was cut short", CUT, RECEIVES, EVERYWHERE},
    {"message to itself of a long buffer with a hole", HOLED, SENDS_ITSELF, EVERYWHERE},
    {"message to itself of a short buffer with a hole", HOLED, SENDS_ITSELF, EVERYWHERE, LENT},
    {"message to itself into a long buffer with a hole", HOLED, RECEIVES_ITSELF, EVERYWHERE},
    {"message to itself into a short buffer with a hole", HOLED, RECEIVES_ITSELF, EVERYWHERE, LENT},
    {"send of a lent buffer with a hole", HOLED, SENDS, SHARED, LENT},
    {"receive of a lent message into a buffer with a hole", HOLED, RECEIVES, SHARED, LENT},
    {"send of a lent buffer to a process that may not read it", NONE, SENDS, SHARED, LENT},
};

static _Atomic bool may_not_read; /* this process, what lies in others */

/* Stands in for the C library's. */
__attribute__((visibility("default"))) ssize_t process_vm_readv(pid_t pid, const struct iovec *here,
                                                                unsigned long parts, const struct iovec *there,
                                                                unsigned long there_parts, unsigned long flags)
{
    if (!may_not_read)
        return syscall(SYS_process_vm_readv, pid, here, parts, there, there_parts, flags);
    errno = EPERM;
    return -1;
}

static size_t length_of(const struct variant *variant)
{
    return variant->lent ? variant->lent : LENGTH;
}

/* The memory that a call is given; `at`: the first byte that it cannot use. */
static unsigned char *harmed(enum harm harm, size_t length, bool writes, unsigned char **at)
{
    int file = memfd_create("harmed", 0);
    if (file < 0 || ftruncate(file, (off_t)length) != 0)
        exit(6);
    unsigned char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    int rights = writes ? PROT_READ : PROT_NONE;
    if (memory == MAP_FAILED)
        exit(6);
    memset(memory, 3, length);
    *at = memory + (harm == PROTECTED ? 0 : harm == HOLED ? length / 8 * 3 + 7 * PAGE : length / 2);
    if (harm == PROTECTED)
        mprotect(memory, length, rights);
    else if (harm == HALF)
        munmap(*at, length / 2);
    else if (harm == HOLED)
        mprotect(*at, PAGE, rights);
    else if (harm == CUT && ftruncate(file, (off_t)length / 2) != 0)
        exit(6);
    close(file);
    return memory;
}

static tutti_result_t message(tutti_comm_t comm, bool sends, unsigned char *memory, size_t length)
{
    int rank;
    tutti_comm_rank(comm, &rank);
    int peer = RANKS - 1 - rank;
    return sends ? tutti_send(memory, length, TUTTI_UINT8, peer, comm, NULL)
                 : tutti_recv(memory, length, TUTTI_UINT8, peer, comm, NULL);
}

/* Where a peer's process reads what it is given, that one finds out. */
static bool peers_read;
static unsigned char spare[LENGTH];

static bool writes(const struct variant *variant)
{
    return variant->deed == RECEIVES || variant->deed == RECEIVES_ITSELF || variant->deed == IS_FILLED;
}

/* A receiver has asked before it is sent to: else what comes would be kept, and copied from there by this process. */
static tutti_result_t meet(tutti_comm_t comm, int rank)
{
    unsigned char word = 0;
    tutti_result_t result = message(comm, rank == GUILTY, &word, 1);
    return result == TUTTI_SUCCESS ? tutti_comm_synchronize(comm) : result;
}

/* From `out` to `in`, both of this rank, while the innocent one waits for a message. */
static tutti_result_t message_itself(tutti_comm_t comm, int rank, const void *out, void *in, size_t length)
{
    if (rank == INNOCENT)
        return tutti_recv(in, length, TUTTI_UINT8, GUILTY, comm, NULL);
    tutti_group_start();
    tutti_result_t sent = tutti_send(out, length, TUTTI_UINT8, rank, comm, NULL);
    tutti_result_t received = tutti_recv(in, length, TUTTI_UINT8, rank, comm, NULL), end = tutti_group_end();
    return sent != TUTTI_SUCCESS ? sent : received != TUTTI_SUCCESS ? received : end;
}

/* `other`: good memory. The hole is in the half that the peer reads or fills. */
static tutti_result_t act(const struct variant *variant, int rank, tutti_comm_t comm, tutti_comm_t before,
                          unsigned char *memory, unsigned char *other)
{
    tutti_result_t result;
    bool sends = (variant->deed == SENDS) == (rank == GUILTY), awaited = variant->lent && variant->deed == RECEIVES;
    may_not_read = variant->harm == NONE && rank == INNOCENT;
    if (awaited && sends && meet(before, rank) != TUTTI_SUCCESS)
        return TUTTI_INTERNAL_ERROR;
    bool trades = variant->deed == TRADES || variant->deed == IS_FILLED;
    for (int i = 0; i < 2 && trades; i++) /* by the end of the second one all know that they can read one another */
        if (tutti_alltoall(other, spare, LENGTH / 2, TUTTI_UINT8, comm, NULL) != TUTTI_SUCCESS ||
            tutti_comm_synchronize(comm) != TUTTI_SUCCESS)
            return TUTTI_INTERNAL_ERROR;
    if (variant->deed == BROADCASTS)
        result = tutti_broadcast(memory, memory, LENGTH, TUTTI_UINT8, GUILTY, comm, NULL);
    else if (variant->deed == TRADES)
        result = tutti_alltoall(memory, other, LENGTH / 2, TUTTI_UINT8, comm, NULL);
    else if (variant->deed == IS_FILLED)
        result = tutti_alltoall(other, memory, LENGTH / 2, TUTTI_UINT8, comm, NULL);
    else if (variant->deed == SENDS_ITSELF)
        result = message_itself(comm, rank, memory, other, length_of(variant));
    else if (variant->deed == RECEIVES_ITSELF)
        result = message_itself(comm, rank, other, memory, length_of(variant));
    else
        result = message(comm, sends, memory, length_of(variant));
    if (awaited && !sends && meet(before, rank) != TUTTI_SUCCESS)
        return TUTTI_INTERNAL_ERROR;
    tutti_result_t end = tutti_comm_synchronize(comm);
    return result == TUTTI_SUCCESS ? end : result;
}

/* A message from the innocent one to the guilty one, and one back, each the communicator's only one. */
static bool clean(int rank, tutti_comm_t to, tutti_comm_t from, unsigned char *out, unsigned char *in, bool begins)
{
    if (begins)
        return message(to, rank == INNOCENT, rank == INNOCENT ? out : in, CLEAN) == TUTTI_SUCCESS &&
               message(from, rank == GUILTY, rank == GUILTY ? out : in, CLEAN) == TUTTI_SUCCESS;
    return tutti_comm_synchronize(to) == TUTTI_SUCCESS && tutti_comm_synchronize(from) == TUTTI_SUCCESS &&
           memcmp(in, out, CLEAN) == 0;
}

static bool says(const struct variant *variant, int rank, tutti_comm_t comm, tutti_result_t result, const void *at)
{
    char address[64];
    const char *sentence = tutti_get_last_error(comm);
    bool by_peer = peers_read && variant->deed == TRADES, own = rank == GUILTY && !by_peer;
    const char *call = variant->deed == BROADCASTS ? "broadcast" : variant->deed >= TRADES ? "alltoall" : "message";
    snprintf(address, sizeof address, "address %p,", at);
    if (variant->lent && variant->deed == RECEIVES && rank == INNOCENT && result == TUTTI_SUCCESS)
        return true; /* its part was done before the receiver's failed */
    return result == (own ? TUTTI_INVALID_ARGUMENT : TUTTI_REMOTE_ERROR) &&
           strstr(sentence, writes(variant) ? "rank 1 gave memory that cannot be written for"
                                            : "rank 1 gave memory that cannot be read for") &&
           strstr(sentence, call) && (!own || strstr(sentence, address));
}

static bool is_filled(const unsigned char *memory, size_t length)
{
    return memory[0] == 3 && memcmp(memory, memory + 1, length - 1) == 0;
}

static void work(struct family *family, int rank, tutti_comm_t comm)
{
    const struct variant *variant = &variants[family->variant];
    tutti_comm_t to, from, before;
    unsigned char *at = NULL, *out = malloc(CLEAN), *in = calloc(1, CLEAN), *other = calloc(1, LENGTH);
    if (!out || !in || !other || tutti_comm_split(comm, 0, rank, &to, NULL) != TUTTI_SUCCESS ||
        tutti_comm_split(comm, 0, rank, &from, NULL) != TUTTI_SUCCESS ||
        tutti_comm_split(comm, 0, rank, &before, NULL) != TUTTI_SUCCESS)
        exit(5);
    for (size_t i = 0; i < PAGE; i++)
        out[i] = (unsigned char)(i * 7);
    for (size_t i = PAGE; i < CLEAN; i += PAGE) {
        memcpy(out + i, out, PAGE);
        memcpy(out + i, &i, sizeof i);
    }
    unsigned char *memory =
        rank == GUILTY ? harmed(variant->harm, length_of(variant), writes(variant), &at) : calloc(1, LENGTH);
    bool alone = variant->harm == NONE; /* else it would be found out by the other messages */
    bool right = alone || clean(rank, to, from, out, in, true);
    tutti_result_t result = act(variant, rank, comm, before, memory, other);
    family->report[rank].wrong =
        alone ? result != TUTTI_SUCCESS || !is_filled(memory, variant->lent) : !says(variant, rank, comm, result, at);
    right = (alone || clean(rank, to, from, out, in, false)) && right;
    memset(in, 0, CLEAN);
    family->report[rank].went_on =
        right && clean(rank, to, from, out, in, true) && clean(rank, to, from, out, in, false);
    family_end(family, rank, comm, result);
    tutti_comm_destroy(to);
    tutti_comm_destroy(from);
    tutti_comm_destroy(before);
    tutti_comm_destroy(comm);
    free(out);
    free(in);
    free(other);
    if (rank == INNOCENT)
        free(memory);
}

/* How often the log tells of the failure, in lines of both ranks. */
static int told(const char *log)
{
    char line[2000];
    int count = 0;
    FILE *file = fopen(log, "re");
    while (file && fgets(line, sizeof line, file))
        count += strstr(line, "gave memory") != NULL;
    if (file)
        fclose(file);
    unlink(log);
    return count;
}

static bool check(int number, const char *log)
{
    struct family *family = family_start(RANKS, -1, number, 1, work);
    bool ended = family_wait(family, 60), right = ended;
    for (int rank = 0; rank < RANKS; rank++) {
        const struct family_report *report = &family->report[rank];
        if (ended && report->went_on && !report->wrong)
            continue;
        fprintf(stderr, "%s: rank %d: result %d, %s: %s\n", variants[number].name, rank, report->result,
                report->went_on ? "went on" : "did not go on", report->sentence);
        right = false;
    }
    family_free(family);
    const struct variant *variant = &variants[number];
    int lines = told(log), most = variant->harm == NONE ? 0 : RANKS;
    bool once = lines == most || (variant->lent && variant->deed == RECEIVES && lines == 1);
    if (!once)
        fprintf(stderr, "%s: %d lines of the log tell of it, %d are enough\n", variant->name, lines, most);
    return right && once;
}

int main(int argc, char **argv)
{
    bool right = true;
    if (argc < 2)
        return 2;
    setenv("TUTTI_TRANSPORT", argv[1], 1);
    peers_read = strcmp(argv[1], "shm") == 0;
    char log[64];
    snprintf(log, sizeof log, "/tmp/tutti-badmemory-%d", (int)getpid());
    setenv("TUTTI_DEBUG", "warn", 1);
    setenv("TUTTI_DEBUG_FILE", log, 1);
    setenv("TUTTI_TRACE", "0", 1);
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 0);
    for (int i = 0; i < (int)(sizeof variants / sizeof *variants); i++)
        if (variants[i].where == EVERYWHERE || (variants[i].where == SHARED) == peers_read)
            right &= check(i, log);
    return !right;
}
