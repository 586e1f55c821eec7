/* SPDX-License-Identifier: Apache-2.0 */
/* What parsing, help and completion share of a table of options. */
#ifndef TUTTI_CLI_OPTIONS_ROWS_H
#define TUTTI_CLI_OPTIONS_ROWS_H

#include "cli/options.h"

/* The rows, and one for --help behind them; then NULL. */
const struct option_row *option_row(const struct options *options, size_t index);
const struct option_row *row_named(const struct options *options, const char *name);

/* Its name may be spelled with one dash. */
bool row_is_np(const struct option_row *row);

/* "-b, --minbytes" */
void option_label(const struct option_row *row, char *out, size_t room);

/* Of the words behind the command, the last one, which may be empty, is where the cursor is. */
void options_complete(const struct options *options, int count, char **words);

#endif
