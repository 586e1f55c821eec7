/* SPDX-License-Identifier: Apache-2.0 */
/* tutti-master, which `tutti master` runs: listens to the agents of a job and names the culprit. */
#include "cli/cli.h"
#include "cli/door.h"
#include "cli/options.h"

#include "master/master.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/parse.h"
#include "base/standard.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define ADDRESS  "127.0.0.1:9798"
#define STUCK_NS (5 * NS_PER_S)

struct master_wishes {
    const char *token;
    struct door_wishes door;
    struct master_options master;
};

static int take_sure(void *request, const char *text)
{
    for (int sure = POSSIBLE; sure <= CERTAIN; sure++)
        if (strcmp(text, confidence_name((enum confidence)sure)) == 0) {
            ((struct master_wishes *)request)->master.sure = (enum confidence)sure;
            return OPTION_TAKEN;
        }
    return OPTION_REFUSED;
}

#define W struct master_wishes
static const struct option_row rows[] = {
    {'t', "token", "FILE", "the secret of the job: the first line, 16 to 256 characters", TO_TEXT(W, token)},
    {'l', "listen", "ADDRESS", "where to listen (default " ADDRESS "; port 0: any free one, which is printed)",
     TO_TEXT(W, door.address)},
    {0, "certificate", "FILE",
     "certificate of this host (PEM), for HTTPS; needed where others may listen, unless --plain",
     TO_TEXT(W, door.certificate)},
    {0, "key", "FILE", "private key of that certificate (PEM)", TO_TEXT(W, door.key)},
    {0, "client-ca", "FILE", "clients must show a certificate that one of these (PEM) has made, besides the token",
     TO_TEXT(W, door.client_ca)},
    {0, "plain", NULL, "serve HTTP, too, where others may listen", TO_FLAG(W, door.plain)},
    {0, "stuck", "TIME", "a rank that stays in one step for TIME stands still (default 5s)",
     TO_TIME(W, master.stuck, 0)},
    {0, "history", "FILE",
     "keep all verdicts in this file of SQLite, or, given postgresql://USER@HOST/DATABASE, "
     "there",
     TO_TEXT(W, master.history)},
    {0, "days", "FILE",
     "keep there, by day and host, lanes that went down, pauses, slow minutes and verdicts; tutti diagnose --history "
     "FILE shows it",
     TO_TEXT(W, master.days)},
    {0, "job", "NAME", "how this job is called there, where several share a database (default \"job\")",
     TO_TEXT(W, master.job)},
    {0, "hook", "COMMAND",
     "run COMMAND for each verdict, by sh -c: TUTTI_VERDICT, TUTTI_VERDICT_KIND, _CONFIDENCE, _HOST, _PID "
     "and _RANK are set, and the verdict is on standard input as JSON",
     TO_TEXT(W, master.hook.command)},
    {0, "webhook", "URL", "POST each verdict there, as JSON", TO_TEXT(W, master.hook.url)},
    {0, "act", NULL, "run hooks; without, only say what would be run", TO_FLAG(W, master.hook.act)},
    {0, "sure", "WORD", "how sure a verdict must be for a hook (default certain)", .choices = "certain likely possible",
     TO_CALL(take_sure, NULL)},
};
#undef W

static const struct options options_of_master = {
    .command = "master",
    .usage = "--token FILE [OPTION...]",
    .before =
        "Listens to the agents of a job (tutti agent), one on each host, and looks at all processes once a "
        "second. Names the culprit when the job hangs or is slow. One master runs for each job, until it is "
        "ended. Readers need the token of the job: /page is for browsers (any name, and the token as password), / "
        "is text, and /network says where the ranks' time went. /verdicts and /history are JSON, /metrics is for "
        "Prometheus.",
    .after = "Exit status: 0 ended by a signal, 1 it cannot listen or go on, 2 wrong options.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
};

static int parse(int argc, char **argv, struct master_wishes *wishes)
{
    int code = options_parse(&options_of_master, argc, argv, wishes);
    if (code >= 0)
        return code;
    if (optind < argc)
        return usage_error("master", "takes no arguments, got %s", argv[optind]);
    if (!wishes->token)
        return usage_error("master", "--token is needed");
    return door_check("master", &wishes->door);
}

int main(int argc, char **argv)
{
    struct master_wishes wishes = {.door = {.address = ADDRESS},
                                   .master = {.stuck = STUCK_NS, .sure = CERTAIN, .job = "job"}};
    struct master_options *master = &wishes.master;
    standard_hold();
    int code = parse(argc, argv, &wishes);
    if (code >= 0)
        return code;
    if (token_load(wishes.token, &master->token) == TUTTI_SUCCESS && door_load(&wishes.door, &master->door))
        code = master_run(master) ? EXIT_OK : EXIT_FAILED;
    else
        code = failure("master", "%s", error_last());
    door_free(&master->door);
    return code;
}
