/* SPDX-License-Identifier: Apache-2.0 */
/* Words that travel in lines between the launchers of a job: a newline is written \n, a backslash \\. */
#ifndef TUTTI_CLI_LAUNCH_WORDS_H
#define TUTTI_CLI_LAUNCH_WORDS_H

/* The first line of a host's launcher: the version of the orders that it understands. */
#define PART_GREETING "tutti part 1"

/* The caller frees the memory that both return; NULL: there is none. */
char *words_line(const char *plain);
char *words_plain(const char *line);

#endif
