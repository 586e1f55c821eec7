/* SPDX-License-Identifier: Apache-2.0 */
/* Runs tutti-lab as a user does, in a lab of this process's own name, and reads the kernel's counters beside it. */
#ifndef LAB_TESTS_HARNESS_H
#define LAB_TESTS_HARNESS_H

#include "lab/counters.h"

#include <sys/types.h>

extern char harness_lab[32];    /* name of the lab */
extern char harness_folder[64]; /* of our own, for files */

/* 77 with a loud reason if labs cannot be made here, else 0. */
int harness_begin(void);
void harness_end(void);

/* Runs a shell command; its exit code. $LAB, $UDP, $NAME and $DIR are tutti-lab, udpflow, the lab's name and our
 * folder. */
int harness_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same; what it wrote, at most size - 1 bytes. */
int harness_read(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Starts one in the background. */
pid_t harness_start(const char *format, ...) __attribute__((format(printf, 1, 2)));
int harness_wait(pid_t pid);

/* Makes a lab of a file with this text. */
int harness_up(const char *yaml);

/* Whether namespaces, folder or names of the lab are left. */
bool harness_anything_left(void);

/* What the lower end of a link sent, and dropped, since the last zero. */
uint64_t harness_sent(const char *link);
uint64_t harness_drops(const char *link);

/* Sends from h0.n0 to h2.n0; `packets` packets of 1000 bytes from each source port. How many arrived (-1: trouble). */
long harness_deliver(int first, int last, int packets, int tos);

#endif
