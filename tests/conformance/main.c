/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the conformance tests against the transport named by the first argument; others pick groups. */
#include "suite.h"
#include "transport/pass/pass.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static const struct group *const groups[] = {
    &basic_group, &order_group,       &close_group,  &process_group, &hostile_group, &memory_group,
    &pass_group,  &faults_group,      &direct_group, &verbs_group,   &lost_group,    &ports_group,
    &calls_group, &unreachable_group, &lent_group,   &staged_group,  &unsealed_group};

static const struct transport_ops *find(const char *name)
{
    for (int i = 0; transport_registry[i]; i++)
        if (strcmp(transport_registry[i]->name, name) == 0)
            return pass_over(transport_registry[i]);
    return NULL;
}

/* qemu-user 7.2, for one, has no process_vm_readv: the run that is about it would only repeat the plain one. */
static bool cannot_attach(void)
{
    char here, there = 0;
    struct iovec to = {&here, 1}, from = {&there, 1};
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) < 0 && errno == ENOSYS;
}

static bool wanted(int argc, char **argv, const char *group)
{
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], group) == 0)
            return true;
    return argc < 3;
}

int main(int argc, char **argv)
{
    int failed = 0;
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 0);
    signal(SIGPIPE, SIG_DFL); /* a transport that raises it fails the test */
    under_test = argc > 1 ? find(argv[1]) : NULL;
    if (!under_test) {
        fprintf(stderr, "usage: conformance TRANSPORT [GROUP...]\n");
        return 2;
    }
    if (getenv("TUTTI_SHM_CMA_MIN") && cannot_attach()) {
        printf("SKIPPED: cross-memory attach was NOT tested: process_vm_readv: %s\n", strerror(errno));
        return 77;
    }
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (wanted(argc, argv, groups[i]->name))
            failed +=
                _cmocka_run_group_tests(groups[i]->name, groups[i]->tests, groups[i]->count, NULL, groups[i]->restore);
    return failed != 0;
}
