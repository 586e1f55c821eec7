/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a command as one table. A row holds all that is said of an option: how it is spelled, its value, its
 * help and where the value goes. Parsing, help texts (so manual pages) and completion in shells are made of the rows.
 */
#ifndef TUTTI_CLI_OPTIONS_H
#define TUTTI_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind { OPTION_FLAG, OPTION_TEXT, OPTION_INT, OPTION_SIZE, OPTION_TIME, OPTION_REAL, OPTION_CALL };

/* Answers of a row's own function, which otherwise returns an exit status after its own complaint. */
enum { OPTION_TAKEN = -1, OPTION_REFUSED = -2 };

struct option_row {
    char letter;           /* 0: none */
    const char *name;      /* NULL: a letter alone. "np" may be spelled -np, as mpirun has it */
    const char *argument;  /* name of its value; NULL: it has none */
    const char *help;      /* NULL: help does not show it */
    enum option_kind kind; /* the macros below set this and what follows */
    size_t at;             /* place of the value in the request */
    int64_t low, high;     /* of numbers; of times in ms */
    const char *choices;   /* the only allowed words, with blanks between; for OPTION_INT the index is the value */
    const char *wants;     /* for OPTION_CALL without choices: the values that it takes */
    int (*take)(void *request, const char *text);
};

#define OPTION_AT(T, member, type)   .at = offsetof(T, member) + _Generic(((T *)0)->member, type : 0)
#define TO_FLAG(T, member)           .kind = OPTION_FLAG, OPTION_AT(T, member, bool)
#define TO_TEXT(T, member)           .kind = OPTION_TEXT, OPTION_AT(T, member, const char *)
#define TO_INT(T, member, low, high) .kind = OPTION_INT, OPTION_AT(T, member, int), low, high
#define TO_SIZE(T, member, low)      .kind = OPTION_SIZE, OPTION_AT(T, member, int64_t), low, INT64_MAX
#define TO_TIME(T, member, low_ms)   .kind = OPTION_TIME, OPTION_AT(T, member, uint64_t), low_ms, 3600 * 1000 /* ns */
#define TO_REAL(T, member)           .kind = OPTION_REAL, OPTION_AT(T, member, double), 0, 1000000
#define TO_WORD(T, member, words)    .kind = OPTION_INT, OPTION_AT(T, member, int), .choices = words
#define TO_CALL(function, text)      .kind = OPTION_CALL, .take = function, .wants = text

struct options {
    const char *command;
    const char *usage;  /* what follows "tutti COMMAND", a line for each way */
    const char *before; /* paragraphs before and after the options, which are wrapped; lines that begin with a blank */
    const char *after;  /* stay as they are. NULL: none */
    const struct option_row *rows;
    size_t count;
    bool alone; /* it is a program of its own, and no command of tutti */
    bool stops; /* parsing stops at the first word that is no option: the others are another program's */
    void (*words)(int place, char **all); /* offers, by options_offer, words for this place; NULL: files */
    void (*more)(void);                   /* prints the end of the help text; NULL: there is no more */
};

/*
 * Puts the values into *request. Returns -1 to go on, with `optind` at the first word that is no option, or an exit
 * status: help was printed, or a complaint. With the first word --complete it prints what may follow the others.
 */
int options_parse(const struct options *options, int argc, char **argv, void *request);

/* Offers a shell a word for the place of the cursor, and its meaning ("": nothing more to say). */
void options_offer(const char *word, const char *meaning);

/* The help text on standard output. */
void options_help(const struct options *options);

/* Writes "a, b or c" from words with blanks between. */
const char *options_list(const char *words, char *out, size_t room);

/* The index of `word` among them, else -1. */
int options_index(const char *words, const char *word);

#endif
