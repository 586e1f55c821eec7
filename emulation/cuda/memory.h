/* SPDX-License-Identifier: Apache-2.0 */
/* The table of address ranges that the stand-in knows, and the files behind them. */
#pragma once

#include "cuda/context.h"

#define PAGE 4096u

enum range_kind { RANGE_DEVICE, RANGE_PINNED, RANGE_REGISTERED, RANGE_MANAGED, RANGE_IMPORTED, RANGE_MAPPED };

#define RANGE_POOLED (1u << 16) /* in flags, of device memory from a pool: no other device reaches it */

struct range {
    enum range_kind kind;
    char *base;
    size_t size, mapped; /* mapped: with padding and guard */
    int device, fd;      /* fd -1: none */
    CUcontext context;
    unsigned flags, refs,
        access; /* refs: how often an IPC handle is open; access: devices allowed to a mapping, a bit each */
    unsigned long long id;
    struct allocation *allocation; /* of a mapping; counted */
    size_t offset;                 /* in the allocation */
    uint64_t inode;                /* of an imported file */
    uint64_t origin;               /* where it lies in its owner's process */
    int owner;                     /* that process */
    int sync_memops;
};

/* Physical memory of the virtual memory calls. Its address is the handle. */
struct allocation {
    unsigned refs;
    int fd, device;
    size_t size;
    bool counted; /* against the device's limit: not when imported */
    CUmemAllocationProp prop;
    struct allocation *next;
};

struct reservation {
    char *base;
    size_t size;
    struct reservation *next;
};

/* All with the lock held. */
struct range *range_find(const void *address);
bool range_overlaps(const void *address, size_t size);
struct range *range_add(const struct range *range);   /* gives it a new id; NULL: no memory */
struct range *range_after(const struct range *range); /* walks all, by address; NULL starts */
void range_remove(struct range *range);
void range_describe(const void *address, char *text, size_t size); /* in words; called without the lock */
void held_lock(int fd);                                            /* this process maps memory of another one */
void held_free(int fd, int device, size_t size); /* takes the file: closed and uncharged when nobody else maps it */
void held_look(void);                            /* has somebody let go? */
CUresult memory_charge(int device, size_t size);
void memory_uncharge(int device, size_t size);
int memory_file(int device, size_t size); /* -1: errno */
void memory_file_name(int device, char *name, size_t size);
int memory_file_again(int fd);  /* a description of its own, which can be locked; -1: errno */
int memory_file_device(int fd); /* -1: not one of ours */
void memory_free_context(CUcontext context);
char *address_take(size_t mapped);       /* reserved address space; NULL: there is none */
void range_release(struct range *range); /* unmaps it and gives everything back */
void allocation_unref(struct allocation *allocation);
