/* SPDX-License-Identifier: Apache-2.0 */
/* tutti schedule. */
#ifndef TUTTI_CLI_SCHEDULE_H
#define TUTTI_CLI_SCHEDULE_H

/* argv[0] is "schedule". Returns the exit status: 0, 1 failed, 2 wrong use. */
int cmd_schedule(int argc, char **argv);

#endif
