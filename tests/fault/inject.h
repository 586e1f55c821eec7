/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures on order: what libinject.so, loaded with LD_PRELOAD, offers to the program. Declared weak: without the
 * library the pointers are NULL, see inject_present.
 *
 * A specification is one of three. FUNCTION:N: the N-th call fails, counted from 1. FUNCTION:N+: so do all calls after
 * it. short:K: no read or write on a socket moves more than K bytes. FUNCTION is malloc, calloc, realloc, connect,
 * accept4, send, sendmsg, recv, recvmsg, socket, epoll_ctl, mmap, memfd_create, eventfd, poll, or any. Calls of all
 * threads are counted together.
 *
 * Outside the program: TUTTI_INJECT=SPECIFICATION arms it at start. TUTTI_INJECT_REPORT=FILE makes the process append a
 * line "calls=C fired=F" at exit, so that a driver can raise N until nothing is fired any more.
 */
#ifndef TUTTI_TESTS_FAULT_INJECT_H
#define TUTTI_TESTS_FAULT_INJECT_H

#include <stdbool.h>

/* False if the specification is not understood. Sets the counts to 0. */
bool inject_arm(const char *specification) __attribute__((weak));
/* Returns how many failures were made since inject_arm. */
unsigned long inject_disarm(void) __attribute__((weak));
/* Calls since inject_arm that the specification speaks of. */
unsigned long inject_calls(void) __attribute__((weak));

static inline bool inject_present(void)
{
    return inject_arm && inject_disarm && inject_calls;
}

#endif
