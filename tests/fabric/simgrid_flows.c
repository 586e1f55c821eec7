/* SPDX-License-Identifier: Apache-2.0 */
/* The same flows in SimGrid: simgrid_flows PLATFORM COUNT, then BYTES and START of each on standard input. Flow i goes
 * from host a<i> to host b<i> of the platform. Prints when each ends. Built by fair_test.py where SimGrid is. */
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 4096 };

static double size[MOST], begin[MOST], end[MOST];
static int number[MOST];

static void name_of(char *out, char kind, int flow)
{
    snprintf(out, 16, "%c%d", kind, flow);
}

static void send_one(int argc, char **argv)
{
    int flow = atoi(argv[0]);
    sg_actor_sleep_for(begin[flow]);
    sg_mailbox_put(sg_mailbox_by_name(argv[0]), &number[flow], (long)size[flow]);
}

static void receive_one(int argc, char **argv)
{
    sg_mailbox_get(sg_mailbox_by_name(argv[0]));
    end[atoi(argv[0])] = simgrid_get_clock();
}

int main(int argc, char **argv)
{
    static char word[MOST][16];
    static char *arguments[MOST][2];
    char host[16];
    simgrid_init(&argc, argv);
    simgrid_load_platform(argv[1]);
    int count = atoi(argv[2]);
    for (int i = 0; i < count; i++) {
        if (scanf("%lf %lf", &size[i], &begin[i]) != 2)
            return 2;
        snprintf(word[i], sizeof word[i], "%d", i);
        arguments[i][0] = word[i];
        name_of(host, 'a', i);
        sg_actor_create(host, sg_host_by_name(host), send_one, 1, arguments[i]);
        name_of(host, 'b', i);
        sg_actor_create(host, sg_host_by_name(host), receive_one, 1, arguments[i]);
    }
    simgrid_run();
    for (int i = 0; i < count; i++)
        printf("%.17g\n", end[i]);
    return 0;
}
