/* SPDX-License-Identifier: Apache-2.0 */
/* Ends a job before its ranks end: signals, the first failure, and the news for ranks and hosts. */
#include "cli/launch.h"
#include "cli/launch_parts.h"
#include "cli/launcher.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- a part's words about its ranks ---- */

bool part_line(void *context, int rank, bool is_error, const char *text, size_t length)
{
    const struct part *part = context;
    char tag[24];
    snprintf(tag, sizeof tag, "%c %d ", is_error ? 'E' : 'O', part->first + rank);
    return output_line(tag, false, text, length);
}

void part_failed(int code, const char *sentence)
{
    char tag[24];
    snprintf(tag, sizeof tag, "F %d ", code);
    output_line(tag, false, sentence, strlen(sentence));
}

/* ---- a cluster's words to its parts ---- */

/* A host that is cut off ends its ranks. */
void cluster_cut_off(struct child *child)
{
    if (child->orders >= 0)
        close(child->orders);
    child->orders = -1;
}

/* Sends an order and never waits: the pipe is made to have room for a whole job. A host that takes no more is cut
 * off. */
void cluster_order(struct child *child, const char *text, size_t length)
{
    if (child->orders >= 0 && write(child->orders, text, length) != (ssize_t)length)
        cluster_cut_off(child);
}

void cluster_signal(struct child *child, int signal_number)
{
    char text[16];
    bool again = signal_number == SIGKILL && child->killed;
    child->killed |= signal_number == SIGKILL;
    if (child->state == SILENT || again) {
        kill(-child->pid, signal_number);
        return;
    }
    cluster_order(child, text, (size_t)snprintf(text, sizeof text, "S %d\n", signal_number));
}

/* ---- both ---- */

void launcher_signal(const struct launcher *launcher, int signal_number)
{
    for (int r = 0; r < launcher->job->size; r++) {
        struct child *child = &launcher->children[r];
        if (child->pid && launcher->job->cluster)
            cluster_signal(child, signal_number);
        else if (child->pid)
            kill(-child->pid, signal_number);
    }
}

void launcher_stop(struct launcher *launcher)
{
    if (launcher->stopping)
        return;
    launcher->stopping = true;
    launcher->kill_at = clock_deadline_ms(LAUNCH_GRACE_MS);
    launcher_signal(launcher, SIGTERM);
    launcher_signal(launcher, SIGCONT);
}

void launcher_say(const struct launcher *launcher, const char *text)
{
    if (!launcher->job->quiet)
        fprintf(stderr, "tutti %s: %s\n", launcher->job->command, text);
}

void launcher_fail(struct launcher *launcher, int code, const char *sentence)
{
    if (launcher->code != 0)
        return;
    launcher->code = code;
    if (launcher->job->part)
        part_failed(code, sentence);
    else
        launcher_say(launcher, sentence);
    launcher_stop(launcher);
}
