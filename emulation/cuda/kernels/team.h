/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: ranks as threads, each running the blocks of its launches; windows and scratch in host memory. */
#ifndef TUTTI_EMULATION_CUDA_KERNELS_TEAM_H
#define TUTTI_EMULATION_CUDA_KERNELS_TEAM_H

#include "cuda/kernels/cuda_kernels.h"
#include "device/cuda/launch.h"

#include <stdbool.h>

struct thread_team {
    int n;
    /* one behind the other: what is wanted of kernels, rank 0's last launch that is over, whom kernels wait for, and
     * what they find wrong */
    uint32_t abort, over, waits[KERNEL_RANKS], wrong[KERNEL_RANKS][4];
    uint32_t tickets;
    uint64_t times[2 * KERNEL_TIMES]; /* of rank 0's launches */
    unsigned char *window[KERNEL_RANKS], *bulk[KERNEL_RANKS];
};

/* One operation: the same kernel on every rank, or a rank's own, which takes a list. */
struct team_job {
    const struct cuda_kernel *kernel, *own[KERNEL_RANKS];
    bool each_block_its_thread;
    bool joined[KERNEL_RANKS]; /* this rank has it in the list of a launch before */
    struct cuda_index grid[KERNEL_RANKS];
    union {
        struct kernel_list list; /* begins with `reduce` */
        struct kernel_reduce reduce;
        struct kernel_peer peer;         /* begins with `reduce` */
        struct kernel_messages messages; /* begins with `exchange` */
        struct kernel_exchange exchange;
        struct kernel_chain chain;
    } params[KERNEL_RANKS];
};

bool team_init(struct thread_team *team, int n);
void team_free(struct thread_team *team);

/* Makes every number in every window `number`, as if that many messages had been sent and read. */
void team_count_from(struct thread_team *team, uint32_t number);

/* For one launch. Rank 0's have tickets. */
struct kernel_team team_of(struct thread_team *team, int rank);

/* Runs all jobs on ranks [first, end), each in a thread of its own, without any meeting between jobs. Ends the program
 * if rank 0's last launch has not told that it is over. */
void team_run(const struct team_job *jobs, size_t count, int first, int end);

#endif
