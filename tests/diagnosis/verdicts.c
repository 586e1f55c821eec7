/* SPDX-License-Identifier: Apache-2.0 */
/* verdicts URL COUNT: a history that is given COUNT verdicts of job "flood", of ranks 0, 1, 2 .., as fast as it takes
 * them. Ends when its input does. */
#include "master/history.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct history *history = argc == 3 ? history_open(argv[1], "flood") : NULL;
    if (!history) {
        fprintf(stderr, "verdicts: %s\n", argc == 3 ? error_last() : "wants a URL and a number");
        return 1;
    }
    for (int i = 0; i < atoi(argv[2]); i++) {
        struct verdict verdict = {.finding = {.kind = FINDING_STOPPED, .confidence = CERTAIN}, .began = 1, .number = 1};
        verdict.finding.culprit = (struct culprit){.rank = i, .world_rank = i, .peer = -1, .host = "a"};
        if (!history_begin(history, &verdict))
            fprintf(stderr, "verdicts: %s\n", error_last());
    }
    printf("given\n");
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    history_close(history);
    return 0;
}
