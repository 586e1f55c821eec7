/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators, groups and attributes. */
#ifndef TUTTI_MPI_COMMS_H
#define TUTTI_MPI_COMMS_H

#include "mpi/shim.h"

#include <pthread.h>

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

struct mpi_group {
    int size;
    int ranks[]; /* of COMM_WORLD */
};
struct mpi_group *group_of(int handle);

#endif
