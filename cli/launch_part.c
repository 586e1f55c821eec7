/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher of one host's ranks, in a job of several hosts: standard input has its orders, in lines.
 *
 * It greets with a line, reads the job up to "go", and then orders: "S n" is a signal for the ranks. Its own lines
 * follow. "O r text" and "E r text" are a line of rank r's output. "M address:port nonce address port" says where all
 * ranks meet. "F code sentence" is the first failure. "P" says that it lives, so that the system notices a lost
 * connection. "D code" is the end.
 */
#include "cli/cli.h"
#include "cli/launch.h"
#include "cli/launch_parts.h"
#include "cli/launcher.h"
#include "cli/launch_words.h"

#include "base/error.h"
#include "base/param.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WORDS = 1 << 20 };

struct words {
    char **all;
    int count;
};

/* The orders before "go". */
struct launch_part_told {
    struct launch job;
    struct part part;
    struct words argv, sets;
    char *folder;
    int code; /* of a job that ends before it begins */
};

/* Reads a line, one byte at a time: what follows "go" is for the launcher. NULL at the end of input. */
static char *read_line(void)
{
    size_t used = 0, room = 0;
    char *line = NULL, one;
    for (;;) {
        if (used == room) {
            char *more = realloc(line, room = 2 * room + 256);
            if (!more)
                break;
            line = more;
        }
        ssize_t got = read(STDIN_FILENO, &one, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        line[used++] = one == '\n' ? '\0' : one;
        if (one == '\n')
            return line;
    }
    free(line);
    return NULL;
}

static bool add_word(struct words *words, const char *text)
{
    char **all = words->count < MOST_WORDS ? realloc(words->all, (size_t)(words->count + 2) * sizeof *all) : NULL;
    if (!all)
        return false;
    words->all = all;
    char *word = all[words->count] = words_plain(text);
    all[words->count + 1] = NULL;
    words->count += word != NULL;
    return word != NULL;
}

static bool take_ranks(struct launch_part_told *told, const char *text)
{
    return sscanf(text, "%d %d %d", &told->part.first, &told->job.size, &told->part.total) == 3 &&
           told->part.first >= 0 && told->job.size > 0 && told->job.size <= MOST_SLOTS &&
           told->part.total >= told->job.size && told->part.first <= told->part.total - told->job.size;
}

static bool take_meeting(struct launch_meeting *meeting, const char *text)
{
    return sscanf(text, "%63s %32s %63s %d", meeting->id, meeting->nonce, meeting->address, &meeting->port) == 4;
}

/* Makes the meeting of the ranks. Ranks of other hosts cannot come to loopback, unless somebody says that they can. */
static bool make_meeting(struct launch_part_told *told)
{
    struct launch_meeting *meeting = &told->part.meeting;
    char text[3 * NET_TEXT + 64];
    if (!meeting_open(meeting, told->part.total == told->job.size)) {
        snprintf(text, sizeof text, "%.150s", error_last());
    } else if (told->part.total > told->job.size && !*param_string(PARAM_SOCKET_IFNAME) &&
               (strncmp(meeting->id, "127.", 4) == 0 || strncmp(meeting->id, "[::1]", 5) == 0)) {
        snprintf(text, sizeof text, "no network but loopback; other hosts cannot reach it");
    } else {
        snprintf(text, sizeof text, "%s %s %s %d", meeting->id, meeting->nonce, meeting->address, meeting->port);
        return output_line("M ", false, text, strlen(text));
    }
    char sentence[sizeof text + HOST_NAME + 16];
    snprintf(sentence, sizeof sentence, "host %s: %s", told->part.host, text);
    part_failed(EXIT_FAILED, sentence);
    return false;
}

/* Sets our own environment, which ranks inherit: the interface to take is a setting, too. */
static bool take_set(struct launch_part_told *told, const char *text)
{
    return add_word(&told->sets, text) && putenv(told->sets.all[told->sets.count - 1]) == 0;
}

static bool take(struct launch_part_told *told, const char *line)
{
    const char *rest = strchr(line, ' ');
    size_t length = rest ? (size_t)(rest++ - line) : strlen(line);
    static const char *const names[] = {"host", "ranks", "folder", "set", "arg", "bind", "meet", "at"};
    size_t which = 0;
    int number;
    while (which < 8 && (strlen(names[which]) != length || strncmp(names[which], line, length) != 0))
        which++;
    if (!rest && which != 5 && which != 6)
        return false;
    switch (which) {
    case 0:
        return snprintf(told->part.host, HOST_NAME, "%s", rest) < HOST_NAME;
    case 1:
        return take_ranks(told, rest);
    case 2:
        free(told->folder);
        return (told->folder = words_plain(rest)) != NULL;
    case 3:
        return take_set(told, rest);
    case 4:
        return add_word(&told->argv, rest);
    case 5:
        return told->job.bind = true;
    case 6:
        return told->part.total && make_meeting(told);
    case 7:
        return take_meeting(&told->part.meeting, rest);
    default: /* an order that comes before "go" ends the job */
        if (strncmp(line, "S ", 2) == 0 && text_int(line + 2, 1, 31, &number))
            told->code = 128 + number;
        return false;
    }
}

static bool take_job(struct launch_part_told *told)
{
    char *line;
    while ((line = read_line()) && strcmp(line, "go") != 0) {
        bool good = take(told, line);
        free(line);
        if (!good)
            return false;
    }
    bool whole = line && told->part.total && told->argv.count && told->part.meeting.port;
    free(line);
    return whole;
}

static int run(struct launch_part_told *told)
{
    char sentence[PATH_MAX + HOST_NAME + 128];
    if (told->folder && chdir(told->folder) != 0) {
        snprintf(sentence, sizeof sentence, "host %s: cannot enter the folder %s: %s", told->part.host, told->folder,
                 strerror(errno));
        part_failed(EXIT_FAILED, sentence);
        return EXIT_FAILED;
    }
    told->job.argv = told->argv.all;
    told->job.part = &told->part;
    told->job.context = &told->part;
    return launch(&told->job);
}

static void forget(struct words *words)
{
    for (int i = 0; i < words->count; i++)
        free(words->all[i]);
    free(words->all);
}

int cmd_run_part(void)
{
    struct launch_part_told told = {
        .code = EXIT_FAILED, .job = {.command = "run", .tag = true, .line = part_line}, .part.meeting.held = {-1, -1}};
    char end[16];
    signal(SIGPIPE, SIG_IGN);
    if (!output_line(PART_GREETING, false, "", 0))
        return EXIT_FAILED;
    int code = take_job(&told) ? run(&told) : told.code;
    output_line("D ", false, end, (size_t)snprintf(end, sizeof end, "%d", code));
    meeting_close(&told.part.meeting);
    free(told.folder);
    forget(&told.argv);
    clearenv(); /* the environment has texts that are freed next */
    forget(&told.sets);
    return code;
}
