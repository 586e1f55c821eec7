/* SPDX-License-Identifier: Apache-2.0 */
/* Own mount and UTS namespaces make a node look like a host of its own to the command, and to nobody else. */
#include "lab/inside.h"
#include "base/error.h"
#include "lab/netns.h"
#include "lab/state.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static tutti_result_t failed(const char *what)
{
    return error_note(TUTTI_SYSTEM_ERROR, "%s for a command in the lab: %s", what, strerror(errno));
}

/* /sys shows the network of whoever mounts it. */
static tutti_result_t own_files(const char *lab)
{
    char hosts[128];
    state_path(lab, "hosts", hosts, sizeof hosts);
    if (mount("", "/", NULL, MS_SLAVE | MS_REC, NULL) != 0)
        return failed("detaching mounts");
    umount2("/sys", MNT_DETACH);
    if (mount("sysfs", "/sys", "sysfs", 0, NULL) != 0)
        return failed("mounting /sys");
    if (access("/etc/hosts", F_OK) == 0 && mount(hosts, "/etc/hosts", NULL, MS_BIND, NULL) != 0)
        return failed("putting the lab's names over /etc/hosts");
    return TUTTI_SUCCESS;
}

static void own_environment(const struct lab_topology *topology, const struct lab_node *node)
{
    char number[16];
    setenv("LAB_NAME", topology->spec.name, 1);
    setenv("LAB_NODE", node->name, 1);
    setenv("TUTTI_EMULATED_HOST", node->name, 1); /* emulated GPUs of each host are its own */
    snprintf(number, sizeof number, "%d", node->index);
    setenv("LAB_INDEX", number, 1);
    snprintf(number, sizeof number, "%d", topology->spec.hosts);
    setenv("LAB_HOSTS", number, 1);
}

static tutti_result_t move_in(const struct lab_topology *topology, const struct lab_node *node)
{
    int home;
    tutti_result_t result = netns_enter(topology->spec.name, node->name, &home);
    if (result != TUTTI_SUCCESS)
        return result;
    close(home);
    if (unshare(CLONE_NEWNS | CLONE_NEWUTS) != 0)
        return failed("making mount and host name namespaces");
    if (sethostname(node->name, strlen(node->name)) != 0)
        return failed("setting the host name");
    own_environment(topology, node);
    return own_files(topology->spec.name);
}

int inside_become(const struct lab_topology *topology, int node, char *const *argv)
{
    if (move_in(topology, &topology->nodes[node]) != TUTTI_SUCCESS)
        return INSIDE_FAILED;
    execvp(argv[0], argv);
    int code = errno;
    error_note(TUTTI_INVALID_ARGUMENT, "running %s in %s: %s", argv[0], topology->nodes[node].name, strerror(code));
    return code == ENOENT ? INSIDE_NOT_FOUND : INSIDE_NOT_RUNNABLE;
}
