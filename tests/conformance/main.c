/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the conformance tests against the transport named by the first argument; a second one picks a group. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>

static const struct group *const groups[] = {&basic_group, &order_group, &close_group, &process_group, &hostile_group, &faults_group};

static const struct transport_ops *find(const char *name)
{
    for (int i = 0; transport_registry[i]; i++)
        if (strcmp(transport_registry[i]->name, name) == 0)
            return transport_registry[i];
    return NULL;
}

int main(int argc, char **argv)
{
    int failed = 0;
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 0);
    signal(SIGPIPE, SIG_DFL); /* a transport that raises it fails the test */
    under_test = argc > 1 ? find(argv[1]) : NULL;
    if (!under_test) {
        fprintf(stderr, "usage: conformance TRANSPORT [GROUP]\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (argc < 3 || strcmp(argv[2], groups[i]->name) == 0)
            failed += _cmocka_run_group_tests(groups[i]->name, groups[i]->tests, groups[i]->count, NULL, NULL);
    return failed != 0;
}
