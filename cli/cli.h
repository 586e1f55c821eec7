/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands of the tutti program share: their entry points, exit codes, and how they complain. */
#ifndef TUTTI_CLI_CLI_H
#define TUTTI_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum exit_code { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Each command gets its own name as argv[0]. A command whose source is not part of this build is NULL. */
int cmd_diagnose(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_env(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_perf(int argc, char **argv) __attribute__((weak));
int cmd_run(int argc, char **argv);
int cmd_schedule(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_topo(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_tune(int argc, char **argv) __attribute__((weak));

/* Prints "tutti COMMAND: sentence" and where help is, on stderr. Returns EXIT_USAGE. */
int usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints "tutti COMMAND: sentence" on stderr. Returns EXIT_FAILED. */
int failure(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* COMMAND is a program of its own from here on, and none of tutti's. */
void text_alone(void);

/* Flushes standard output. The reason of the first failure is kept: a command may go on, and the program tells at its
 * end. */
void text_flush(void);
/* Why a part of the output was lost, after the last output; NULL: nothing was. */
const char *text_lost(void);

/* A whole decimal number in [low, high]. */
bool text_int(const char *text, int64_t low, int64_t high, int *out);

/* A size as parse_size() reads it, with the largest unit that divides it: 64K. */
void text_size(int64_t size, char *out, size_t room);

/* The path of this program, from /proc. False if it cannot be read. */
bool program_path(char *out, size_t size);

#endif
