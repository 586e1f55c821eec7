/* SPDX-License-Identifier: Apache-2.0 */
/* What a device has done for all processes of its network namespace. */
#ifndef VERBS_GATHER_H
#define VERBS_GATHER_H

/* Asks the other processes, of the same user if that is not root, for the device's counters, and sets device->others.
 * One that does not answer in 200 ms counts nothing. Without the engine's lock. */
void gather_counters(const char *device);

#endif
