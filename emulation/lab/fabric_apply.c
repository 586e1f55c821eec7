/* SPDX-License-Identifier: Apache-2.0 */
/* Enters a node's namespace, hands batches to iproute2, writes settings, comes back. */
#include "lab/fabric_apply.h"
#include "base/error.h"
#include "lab/netns.h"
#include "lab/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A line of plan_settings, "-PATH VALUE": the '-' allows a kernel to lack the setting. */
static tutti_result_t write_setting(const char *line)
{
    char path[160], value[32];
    bool optional = *line == '-';
    const char *space = strchr(line, ' ');
    snprintf(path, sizeof path, "/proc/sys/%.*s", (int)(space - line - optional), line + optional);
    snprintf(value, sizeof value, "%s", space + 1);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value);
    int code = errno;
    if (fd >= 0)
        close(fd);
    if (done || (optional && code == ENOENT))
        return TUTTI_SUCCESS;
    const char *advice = strstr(path, "hash_seed") ? "; leave hash_seed out (it needs Linux 6.11)"
                         : strstr(path, "ipv6")    ? "; write \"ipv6: false\" in the file"
                                                   : "";
    return error_note(TUTTI_SYSTEM_ERROR, "setting %s to %s: %s%s", path, value, strerror(code), advice);
}

static tutti_result_t write_settings(struct text *settings)
{
    tutti_result_t result = text_ok(settings);
    char *rest = settings->data;
    for (char *line = strtok_r(rest, "\n", &rest); line && result == TUTTI_SUCCESS; line = strtok_r(NULL, "\n", &rest))
        result = write_setting(line);
    return result;
}

static tutti_result_t add_rule(const struct netlink_rule *rule, void *context)
{
    return netlink_add_rule(*(int *)context, rule);
}

/* Inside the node. */
static tutti_result_t furnish(struct lab_fabric *fabric, int node, struct text *settings, const struct text *ports,
                              const struct text *rates)
{
    const char *name = fabric->topology.nodes[node].name;
    tutti_result_t result = write_settings(settings);
    if (result == TUTTI_SUCCESS)
        result = program_batch("ip", ports, name);
    if (result == TUTTI_SUCCESS)
        result = program_batch("tc", rates, name);
    if (result == TUTTI_SUCCESS)
        result = plan_rules(&fabric->topology, node, add_rule, &fabric->sockets[node]);
    return result;
}

tutti_result_t fabric_apply_node(struct lab_fabric *fabric, int node)
{
    const struct lab_topology *topology = &fabric->topology;
    struct text settings = {0}, ports = {0}, rates = {0};
    int home;
    plan_settings(topology, node, &settings);
    text_add(&ports, "link set dev lo up\n");
    for (int i = 0; i < topology->link_count; i++) {
        const struct lab_link *link = &topology->links[i];
        bool lower = link->lower.node == node;
        if (!lower && link->upper.node != node)
            continue;
        plan_port(topology, link, lower, false, &ports);
        plan_rate(topology, lower ? link->lower.port : link->upper.port, link->rate, false, &rates);
    }
    tutti_result_t result = netns_enter(topology->spec.name, topology->nodes[node].name, &home);
    if (result == TUTTI_SUCCESS) {
        result = furnish(fabric, node, &settings, &ports, &rates);
        tutti_result_t back = netns_leave(home);
        result = result == TUTTI_SUCCESS ? back : result;
    }
    text_free(&settings);
    text_free(&ports);
    text_free(&rates);
    return result;
}

tutti_result_t fabric_apply_batch(struct lab_fabric *fabric, int node, const char *program, const struct text *batch)
{
    const char *name = fabric->topology.nodes[node].name;
    int home;
    tutti_result_t result = netns_enter(fabric->topology.spec.name, name, &home);
    if (result != TUTTI_SUCCESS)
        return result;
    result = program_batch(program, batch, name);
    tutti_result_t back = netns_leave(home);
    return result == TUTTI_SUCCESS ? back : result;
}

tutti_result_t fabric_apply_routes(struct lab_fabric *fabric, const struct fabric_link *links)
{
    const struct lab_topology *topology = &fabric->topology;
    struct plan_state *state = malloc((size_t)topology->link_count * sizeof *state + 1);
    struct text batch = {0};
    if (!state)
        return error_note(TUTTI_SYSTEM_ERROR, "out of memory for routes");
    for (int i = 0; i < topology->link_count; i++)
        state[i] = (struct plan_state){links[i].lower.up, links[i].upper.up};
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < topology->node_count && result == TUTTI_SUCCESS; i++) {
        text_clear(&batch);
        plan_routes(topology, i, state, &batch);
        result = fabric_apply_batch(fabric, i, "ip", &batch);
    }
    text_free(&batch);
    free(state);
    return result;
}
