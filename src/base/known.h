/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of which the library knows how long it lives: from known_add() to known_remove(). What is made for this
 * memory, for example its registration with an adapter, may be kept until then. Of all other memory nobody says when
 * its pages get another meaning. Numbers are never used twice. All functions may be called from any thread.
 */
#ifndef TUTTI_BASE_KNOWN_H
#define TUTTI_BASE_KNOWN_H

#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct known {
    uint64_t id; /* from 1 */
    char *base;
    size_t size;
    int device;   /* as in struct place */
    bool ordered; /* of a device's: what adapters have written there, the device sees at once, without a flush */
};

/* 0: there is no memory to write it down; then it is memory like any other. */
uint64_t known_add(void *base, size_t size);
/* Memory of a device. A descriptor, by which adapters reach it, is the table's own from here on. */
uint64_t known_add_device(const struct known *memory, int descriptor);
/* Adapters do not take it, and will not. Returns whether that is news. */
bool known_refuse(uint64_t id);
bool known_is_refused(uint64_t id);
/* A copy of the descriptor, the caller's to close, and known.ordered. -1: there is none, or the memory lives no longer.
 */
int known_descriptor(uint64_t id, bool *ordered);
/* Before the memory is given back. 0: nothing. */
void known_remove(uint64_t id);

/* A known range that holds [address, address + length). False: there is none. */
bool known_find(const void *address, size_t length, struct known *out);
bool known_lives(uint64_t id);
/* The one with the smallest number above `after`. False: there is none. */
bool known_next(uint64_t after, struct known *out);

/* A watcher hears of memory that comes and goes: a number is added to its eventfd. */
struct known_watcher {
    struct list node;
    int bell;
};
void known_watch(struct known_watcher *watcher, int bell);
void known_unwatch(struct known_watcher *watcher);

#endif
