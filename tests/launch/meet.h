/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs for launchers share. */
#ifndef TUTTI_LAUNCH_MEET_H
#define TUTTI_LAUNCH_MEET_H

/* Returns the process's exit status. */
int meet_and_report(const char *note);

#endif
