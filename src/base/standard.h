/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors 0, 1 and 2, which a program may have been started without. */
#ifndef TUTTI_BASE_STANDARD_H
#define TUTTI_BASE_STANDARD_H

/* Closed ones lead nowhere from now on, not to what is opened next: the program, and our log, would print into a peer's
 * lane or a black box. Reading and writing them fails as before (EBADF). Call this before anything stays open. */
void standard_hold(void);

#endif
