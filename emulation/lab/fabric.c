/* SPDX-License-Identifier: Apache-2.0 */
/* Up and down: namespaces, links, settings, addresses, rates, rules, routes, in this order; everything is undone on
 * failure. */
#include "lab/fabric.h"
#include "base/clock.h"
#include "base/error.h"
#include "lab/fabric_apply.h"
#include "lab/netns.h"
#include "lab/program.h"
#include "lab/state.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define READY_MS 10000

/* Signals wait while a lab is made or removed; between steps we look whether one has come. */
static tutti_result_t interrupted(void)
{
    sigset_t pending;
    if (sigpending(&pending) == 0)
        for (int signal = 1; signal <= SIGTERM; signal++)
            if (sigismember(&pending, signal) == 1 && (signal == SIGINT || signal == SIGTERM || signal == SIGHUP))
                return error_note(TUTTI_SYSTEM_ERROR, "stopped by signal %d", signal);
    return TUTTI_SUCCESS;
}

static void hold_signals(sigset_t *before)
{
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    sigaddset(&held, SIGTERM);
    sigaddset(&held, SIGHUP);
    sigprocmask(SIG_BLOCK, &held, before);
}

/* Without the lock. */
static tutti_result_t clear(const char *name)
{
    char **names;
    int count;
    tutti_result_t result = netns_list(name, &names, &count);
    if (result != TUTTI_SUCCESS)
        return result;
    result = netns_end_processes(names, count);
    for (int i = 0; i < count && result == TUTTI_SUCCESS; i++)
        result = netns_remove(names[i]);
    netns_list_free(names, count);
    return result == TUTTI_SUCCESS ? state_remove(name) : result;
}

/* Namespaces of that name without our folder are somebody else's. */
static tutti_result_t refuse_foreign(const char *name)
{
    char **names;
    int count;
    tutti_result_t result = state_exists(name) ? TUTTI_SUCCESS : netns_list(name, &names, &count);
    if (state_exists(name) || result != TUTTI_SUCCESS)
        return result;
    if (count > 0)
        result = error_note(TUTTI_INVALID_USAGE,
                            "namespace %s exists and is not tutti-lab's; choose another name for the lab with --name",
                            names[0]);
    netns_list_free(names, count);
    return result;
}

int fabric_processes(const char *name)
{
    char **names;
    int count;
    if (netns_list(name, &names, &count) != TUTTI_SUCCESS)
        return -1;
    int found = netns_processes(names, count);
    netns_list_free(names, count);
    return found;
}

/* `up` came to its end, and every namespace is there. */
static bool lives(const char *name)
{
    char path[128];
    struct lab_fabric fabric;
    state_path(name, "ready", path, sizeof path);
    if (access(path, F_OK) != 0 || fabric_open(name, &fabric) != TUTTI_SUCCESS)
        return false;
    fabric_close(&fabric);
    return true;
}

static tutti_result_t refuse_living(const char *name, bool replace)
{
    char user[64];
    if (!lives(name))
        return TUTTI_SUCCESS;
    int processes = fabric_processes(name);
    state_user_name(state_user_of(name), user, sizeof user);
    if (state_user_of(name) != state_user())
        return error_note(TUTTI_INVALID_USAGE,
                          "lab %s is up, and is user %s's (%d processes in it); make one of another name with --name",
                          name, user, processes);
    if (!replace)
        return error_note(TUTTI_INVALID_USAGE,
                          "lab %s is up (%d processes in it); make one of another name with --name, or end this one "
                          "first: with --replace, or by \"tutti-lab down %s\"",
                          name, processes, name);
    fprintf(stderr, "tutti-lab: ending lab %s, which is up (%d processes in it)\n", name, processes);
    return TUTTI_SUCCESS;
}

static tutti_result_t remember(const struct lab_topology *topology, const struct text *yaml)
{
    struct text hosts = {0}, user = {0};
    tutti_result_t result = state_create(topology->spec.name);
    plan_hosts(topology, &hosts);
    text_add(&user, "%u", (unsigned)state_user());
    if (result == TUTTI_SUCCESS)
        result = state_write(topology->spec.name, "user", &user);
    if (result == TUTTI_SUCCESS)
        result = state_write(topology->spec.name, "topology.yaml", yaml);
    if (result == TUTTI_SUCCESS)
        result = state_write(topology->spec.name, "hosts", &hosts);
    text_free(&hosts);
    text_free(&user);
    return result;
}

static bool all_running(const struct fabric_link *links, int count)
{
    for (int i = 0; i < count; i++)
        if (links[i].lower.up && links[i].upper.up && (!links[i].lower.running || !links[i].upper.running))
            return false;
    return true;
}

tutti_result_t fabric_settle(struct lab_fabric *fabric, struct fabric_link *links)
{
    uint64_t deadline = clock_deadline_ms(READY_MS);
    for (;;) {
        tutti_result_t result = fabric_read(fabric, links);
        if (result != TUTTI_SUCCESS || all_running(links, fabric->topology.link_count))
            return result;
        if (clock_passed(deadline))
            return error_note(TUTTI_SYSTEM_ERROR, "the links of lab %s did not come up within %d s",
                              fabric->topology.spec.name, READY_MS / 1000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static tutti_result_t furnish(struct lab_fabric *fabric)
{
    struct fabric_link *links = calloc((size_t)fabric->topology.link_count + 1, sizeof *links);
    tutti_result_t result = links ? TUTTI_SUCCESS : error_note(TUTTI_SYSTEM_ERROR, "out of memory for links");
    for (int i = 0; i < fabric->topology.node_count && result == TUTTI_SUCCESS; i++)
        if ((result = fabric_apply_node(fabric, i)) == TUTTI_SUCCESS)
            result = interrupted();
    if (result == TUTTI_SUCCESS)
        result = fabric_settle(fabric, links);
    if (result == TUTTI_SUCCESS)
        result = fabric_apply_routes(fabric, links);
    free(links);
    return result;
}

static tutti_result_t make(const struct lab_topology *topology, const struct text *yaml)
{
    struct text batch = {0};
    struct lab_fabric fabric;
    plan_spaces(topology, &batch);
    tutti_result_t result = remember(topology, yaml);
    if (result == TUTTI_SUCCESS)
        result = program_batch("ip", &batch, "the first namespace");
    text_free(&batch);
    if (result == TUTTI_SUCCESS)
        result = interrupted();
    if (result == TUTTI_SUCCESS && (result = fabric_open(topology->spec.name, &fabric)) == TUTTI_SUCCESS) {
        result = furnish(&fabric);
        fabric_close(&fabric);
    }
    if (result == TUTTI_SUCCESS)
        result = interrupted();
    return result == TUTTI_SUCCESS ? state_write(topology->spec.name, "ready", &(struct text){0}) : result;
}

/* Undoes a failed `up`, keeping the reason of the failure. */
static tutti_result_t undo(const char *name, tutti_result_t reason)
{
    char *said = strdup(error_last());
    tutti_result_t result = clear(name);
    if (said && result == TUTTI_SUCCESS)
        error_note(reason, "%s (lab %s is removed again)", said, name);
    else if (said) {
        char *left = strdup(error_last());
        error_note(reason, "%s; and lab %s could not be removed: %s", said, name, left ? left : "out of memory");
        free(left);
    }
    free(said);
    return reason;
}

tutti_result_t fabric_up(const struct lab_topology *topology, const struct text *yaml, bool replace)
{
    sigset_t before;
    int lock;
    tutti_result_t result = state_lock(&lock);
    if (result != TUTTI_SUCCESS)
        return result;
    hold_signals(&before);
    result = refuse_foreign(topology->spec.name);
    if (result == TUTTI_SUCCESS)
        result = refuse_living(topology->spec.name, replace);
    if (result == TUTTI_SUCCESS && (result = clear(topology->spec.name)) == TUTTI_SUCCESS) {
        result = make(topology, yaml);
        if (result != TUTTI_SUCCESS)
            undo(topology->spec.name, result);
    }
    state_unlock(lock);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return result;
}

tutti_result_t fabric_down(const char *name)
{
    sigset_t before;
    int lock;
    tutti_result_t result = state_lock(&lock);
    if (result != TUTTI_SUCCESS)
        return result;
    hold_signals(&before);
    result = refuse_foreign(name);
    if (result == TUTTI_SUCCESS)
        result = clear(name);
    state_unlock(lock);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return result;
}

static tutti_result_t open_socket(struct lab_fabric *fabric, int node)
{
    int home;
    tutti_result_t result = netns_enter(fabric->topology.spec.name, fabric->topology.nodes[node].name, &home);
    if (result != TUTTI_SUCCESS)
        return result;
    result = netlink_open(&fabric->sockets[node]);
    tutti_result_t back = netns_leave(home);
    return result == TUTTI_SUCCESS ? back : result;
}

tutti_result_t fabric_open(const char *name, struct lab_fabric *out)
{
    *out = (struct lab_fabric){0};
    tutti_result_t result = state_load(name, &out->topology);
    if (result != TUTTI_SUCCESS)
        return result;
    out->sockets = malloc((size_t)out->topology.node_count * sizeof *out->sockets + 1);
    out->scratch = calloc((size_t)out->topology.link_count + 1, sizeof *out->scratch);
    for (int i = 0; out->sockets && i < out->topology.node_count; i++)
        out->sockets[i] = -1;
    if (!out->sockets || !out->scratch)
        result = error_note(TUTTI_SYSTEM_ERROR, "out of memory for lab %s", name);
    for (int i = 0; i < out->topology.node_count && result == TUTTI_SUCCESS; i++)
        result = open_socket(out, i);
    if (result != TUTTI_SUCCESS)
        fabric_close(out);
    return result;
}

void fabric_close(struct lab_fabric *fabric)
{
    for (int i = 0; fabric->sockets && i < fabric->topology.node_count; i++)
        netlink_close(fabric->sockets[i]);
    free(fabric->sockets);
    free(fabric->scratch);
    topology_free(&fabric->topology);
    *fabric = (struct lab_fabric){0};
}

static void sort_in(struct lab_fabric *fabric, int node, int count, struct fabric_link *links)
{
    const struct lab_topology *topology = &fabric->topology;
    for (int i = 0; i < topology->link_count; i++)
        for (int p = 0; p < count; p++) {
            const struct netlink_port *port = &fabric->scratch[p];
            if (topology->links[i].lower.node == node && strcmp(topology->links[i].lower.port, port->name) == 0)
                links[i].lower = *port;
            if (topology->links[i].upper.node == node && strcmp(topology->links[i].upper.port, port->name) == 0)
                links[i].upper = *port;
        }
}

tutti_result_t fabric_read(struct lab_fabric *fabric, struct fabric_link *links)
{
    const struct lab_topology *topology = &fabric->topology;
    memset(links, 0, (size_t)topology->link_count * sizeof *links);
    for (int i = 0; i < topology->node_count; i++) {
        int count, room = topology->link_count;
        tutti_result_t result = netlink_ports(fabric->sockets[i], fabric->scratch, room, &count);
        if (result != TUTTI_SUCCESS)
            return result;
        sort_in(fabric, i, count < room ? count : room, links);
    }
    return TUTTI_SUCCESS;
}
