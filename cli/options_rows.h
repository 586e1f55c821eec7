/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that parsing, help and completion share for a table of options. */
#ifndef TUTTI_CLI_OPTIONS_ROWS_H
#define TUTTI_CLI_OPTIONS_ROWS_H

#include "cli/options.h"

/* The rows, and one for --help behind them; then NULL. */
const struct option_row *option_row(const struct options *options, size_t index);
const struct option_row *row_named(const struct options *options, const char *name);

/* May one dash spell its name? */
bool row_is_np(const struct option_row *row);

/* "-b, --minbytes" */
void option_label(const struct option_row *row, char *out, size_t room);

/* The words behind the command; the cursor is in the last one, which may be empty. */
void options_complete(const struct options *options, int count, char **words);

#endif
