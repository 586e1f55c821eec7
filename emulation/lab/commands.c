/* SPDX-License-Identifier: Apache-2.0 */
/* Each subcommand: choose the lab, do the work, print. Failures are printed by fail(), in one sentence. */
#include "lab/commands.h"
#include "base/error.h"
#include "wiring/config.h"
#include "lab/draw.h"
#include "lab/everywhere.h"
#include "lab/inside.h"
#include "lab/plan.h"
#include "lab/report.h"
#include "lab/state.h"
#include "lab/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(tutti_result_t result, int code)
{
    if (result == TUTTI_SUCCESS)
        return EXIT_SUCCESS;
    fprintf(stderr, "tutti-lab: %s\n", error_last());
    return code;
}

/* Prints and frees the text, unless something went wrong before. */
static tutti_result_t print(struct text *text, tutti_result_t result)
{
    if (result == TUTTI_SUCCESS)
        result = text_write(text, STDOUT_FILENO, "output");
    text_free(text);
    return result;
}

static tutti_result_t open_lab(const struct command_line *line, struct lab_fabric *fabric)
{
    char name[LAB_NAME_BYTES];
    tutti_result_t result = state_choose(line->name, name, sizeof name);
    return result == TUTTI_SUCCESS ? fabric_open(name, fabric) : result;
}

static tutti_result_t load_lab(const struct command_line *line, struct lab_topology *topology)
{
    char name[LAB_NAME_BYTES];
    tutti_result_t result = state_choose(line->name, name, sizeof name);
    return result == TUTTI_SUCCESS ? state_load(name, topology) : result;
}

static tutti_result_t up_or_show(const struct command_line *line, const struct lab_topology *topology,
                                 const struct text *yaml)
{
    struct text out = {0};
    if (line->dry_run)
        return print(&out, plan_show(topology, &out));
    tutti_result_t result = fabric_up(topology, yaml, line->replace);
    if (result == TUTTI_SUCCESS)
        text_add(&out, "lab %s is up: %d hosts x %d NICs, %d leaves, %d spines, %d links\n", topology->spec.name,
                 topology->spec.hosts, topology->spec.nics, topology->spec.leaves, topology->spec.spines,
                 topology->link_count);
    return print(&out, result);
}

static int run_up(const struct command_line *line)
{
    struct lab_topology topology;
    struct text yaml = {0};
    char *data;
    size_t length;
    if (line->name && !config_name_ok(line->name))
        return fail(error_note(TUTTI_INVALID_ARGUMENT,
                               "\"%s\" is not a name for a lab: a letter, then letters, digits, - or _", line->name),
                    EXIT_USAGE);
    tutti_result_t result = config_read_file(line->words[0], CONFIG_FILE_LIMIT, &data, &length);
    if (result != TUTTI_SUCCESS)
        return fail(result, EXIT_FAILURE);
    text_append(&yaml, data, length);
    result = config_parse(line->words[0], data, length, &topology);
    free(data);
    if (result == TUTTI_SUCCESS) {
        if (line->name)
            snprintf(topology.spec.name, sizeof topology.spec.name, "%s", line->name);
        result = up_or_show(line, &topology, &yaml);
        topology_free(&topology);
    }
    text_free(&yaml);
    return fail(result, EXIT_FAILURE);
}

static tutti_result_t down_all(void)
{
    struct text names = {0};
    int count;
    tutti_result_t result = state_list(true, &names, &count);
    char *rest = names.data;
    for (char *name = rest ? strtok_r(rest, "\n", &rest) : NULL; name && result == TUTTI_SUCCESS;
         name = strtok_r(NULL, "\n", &rest))
        result = fabric_down(name);
    text_free(&names);
    return result;
}

static int run_down(const struct command_line *line)
{
    char name[LAB_NAME_BYTES];
    if (line->all)
        return fail(down_all(), EXIT_FAILURE);
    tutti_result_t result = state_choose(line->word_count ? line->words[0] : line->name, name, sizeof name);
    if (result == TUTTI_SUCCESS)
        result = fabric_down(name);
    return fail(result, EXIT_FAILURE);
}

static void list_lab(const char *name, struct text *out)
{
    struct lab_topology topology;
    char user[64];
    state_user_name(state_user_of(name), user, sizeof user);
    if (state_load(name, &topology) != TUTTI_SUCCESS) {
        text_add(out, "%-20s %-12s incomplete: tutti-lab down %s\n", name, user, name);
        return;
    }
    text_add(out, "%-20s %-12s %5d %9d\n", name, user, topology.spec.hosts, fabric_processes(name));
    topology_free(&topology);
}

static int run_list(const struct command_line *line)
{
    struct text names = {0}, out = {0};
    int count;
    tutti_result_t result = state_list(false, &names, &count);
    char *rest = names.data;
    if (count)
        text_add(&out, "%-20s %-12s %5s %9s\n", "LAB", "USER", "HOSTS", "PROCESSES");
    for (char *name = rest ? strtok_r(rest, "\n", &rest) : NULL; name; name = strtok_r(NULL, "\n", &rest))
        list_lab(name, &out);
    text_free(&names);
    return fail(print(&out, result == TUTTI_SUCCESS ? text_ok(&out) : result), EXIT_FAILURE);
}

static int run_hosts(const struct command_line *line)
{
    struct lab_topology topology;
    struct text out = {0};
    tutti_result_t result = load_lab(line, &topology);
    if (result == TUTTI_SUCCESS) {
        report_hosts(&topology, line->json, &out);
        topology_free(&topology);
        result = text_ok(&out);
    }
    return fail(print(&out, result), EXIT_FAILURE);
}

static int run_run(const struct command_line *line)
{
    struct lab_topology topology;
    tutti_result_t result = load_lab(line, &topology);
    if (result != TUTTI_SUCCESS)
        return fail(result, INSIDE_FAILED);
    int node = topology_find_node(&topology, line->words[0]), code = INSIDE_FAILED;
    if (node < 0)
        error_note(TUTTI_INVALID_ARGUMENT, "lab %s has no node \"%s\"; nodes are h0 to h%d, l0 to l%d and s0 to s%d",
                   topology.spec.name, line->words[0], topology.spec.hosts - 1, topology.spec.leaves - 1,
                   topology.spec.spines - 1);
    else
        code = inside_become(&topology, node, line->program);
    topology_free(&topology);
    return fail(TUTTI_INVALID_ARGUMENT, code);
}

static int run_exec_all(const struct command_line *line)
{
    struct lab_topology topology;
    tutti_result_t result = load_lab(line, &topology);
    if (result != TUTTI_SUCCESS)
        return fail(result, INSIDE_FAILED);
    int code = everywhere_run(&topology, line->program);
    topology_free(&topology);
    return code;
}

static bool parse_cut(const struct command_line *line, enum fabric_cut *out)
{
    static const char *const names[] = {"leaf", "spine", "host"};
    *out = line->silent ? FABRIC_SILENT : FABRIC_AT_LEAF;
    for (int i = 0; line->at && i < 3; i++)
        if (strcmp(line->at, names[i]) == 0)
            *out = (enum fabric_cut)i;
    return !line->at || (!line->silent && strcmp(line->at, names[*out < 3 ? *out : 0]) == 0);
}

static int run_link(const struct command_line *line)
{
    struct lab_fabric fabric;
    enum fabric_cut where;
    bool down = strcmp(line->words[0], "down") == 0;
    if (!down && strcmp(line->words[0], "up") != 0)
        return fail(error_note(TUTTI_INVALID_ARGUMENT, "link %s: write link down NAME or link up NAME", line->words[0]),
                    EXIT_USAGE);
    if (!parse_cut(line, &where) || (!down && (line->at || line->silent)))
        return fail(error_note(TUTTI_INVALID_ARGUMENT,
                               "link down takes one of --at leaf, --at spine, --at host, --silent; "
                               "link up takes none of them"),
                    EXIT_USAGE);
    tutti_result_t result = open_lab(line, &fabric);
    if (result == TUTTI_SUCCESS) {
        result = down ? fabric_link_down(&fabric, line->words[1], where) : fabric_link_up(&fabric, line->words[1]);
        fabric_close(&fabric);
    }
    return fail(result, EXIT_FAILURE);
}

static int run_rate(const struct command_line *line)
{
    struct lab_fabric fabric;
    uint64_t rate;
    if (!config_parse_rate(line->words[1], &rate))
        return fail(error_note(TUTTI_INVALID_ARGUMENT,
                               "\"%s\" is not a rate; write a number from 8kbit to 1000gbit with kbit, "
                               "mbit or gbit, such as 200mbit, or none",
                               line->words[1]),
                    EXIT_USAGE);
    tutti_result_t result = open_lab(line, &fabric);
    if (result == TUTTI_SUCCESS) {
        result = fabric_rate(&fabric, line->words[0], rate);
        fabric_close(&fabric);
    }
    return fail(result, EXIT_FAILURE);
}

static tutti_result_t read_counters(const struct command_line *line, struct lab_fabric *fabric,
                                    struct counters *counters)
{
    return line->seconds > 0 ? counters_measure(fabric, line->seconds, counters) : counters_read(fabric, counters);
}

static tutti_result_t print_counters(const struct command_line *line, struct lab_fabric *fabric)
{
    struct counters counters;
    struct text out = {0};
    tutti_result_t result = read_counters(line, fabric, &counters);
    if (result != TUTTI_SUCCESS)
        return result;
    if (line->json)
        report_json(&counters, &out);
    else
        report_table(&counters, &out);
    counters_free(&counters);
    return print(&out, text_ok(&out));
}

static int run_counters(const struct command_line *line)
{
    struct lab_fabric fabric;
    tutti_result_t result = open_lab(line, &fabric);
    if (result == TUTTI_SUCCESS) {
        result = line->zero ? counters_zero(&fabric) : print_counters(line, &fabric);
        fabric_close(&fabric);
    }
    return fail(result, EXIT_FAILURE);
}

static int run_watch(const struct command_line *line)
{
    struct lab_fabric fabric;
    tutti_result_t result = open_lab(line, &fabric);
    if (result == TUTTI_SUCCESS) {
        result = watch_run(&fabric, line->seconds > 0 ? line->seconds : 1, line->count);
        fabric_close(&fabric);
    }
    return fail(result, EXIT_FAILURE);
}

static tutti_result_t save(const char *path, struct text *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_note(TUTTI_SYSTEM_ERROR, "making %s: %s", path, strerror(errno));
    tutti_result_t result = text_write(text, fd, path);
    close(fd);
    return result;
}

static tutti_result_t draw(const struct command_line *line, struct lab_fabric *fabric)
{
    struct counters counters;
    struct text out = {0};
    tutti_result_t result = read_counters(line, fabric, &counters);
    if (result != TUTTI_SUCCESS)
        return result;
    result = draw_svg(&counters, &out);
    counters_free(&counters);
    if (!line->output)
        return print(&out, result);
    if (result == TUTTI_SUCCESS)
        result = save(line->output, &out);
    text_free(&out);
    return result;
}

static int run_draw(const struct command_line *line)
{
    struct lab_fabric fabric;
    tutti_result_t result = open_lab(line, &fabric);
    if (result == TUTTI_SUCCESS) {
        result = draw(line, &fabric);
        fabric_close(&fabric);
    }
    return fail(result, EXIT_FAILURE);
}

const struct command commands[] = {
    {"up", "up FILE", "Make the lab that FILE describes", 1, 1, false, "--name --dry-run --replace", run_up},
    {"down", "down [NAME]", "End the lab's processes and remove all of it", 0, 1, false, "--name --all", run_down},
    {"list", "list", "Labs that are up: name, user, hosts, processes", 0, 0, false, "", run_list},
    {"hosts", "hosts", "Hosts, NICs, leaves and addresses", 0, 0, false, "--name --json", run_hosts},
    {"run", "run NODE [--] CMD...", "Run CMD in a host (or leaf, or spine); exits with its code", 1, 1, true, "--name",
     run_run},
    {"exec-all", "exec-all [--] CMD...", "Run CMD on all hosts at once; ends all when one fails, with its code", 0, 0,
     true, "--name", run_exec_all},
    {"link", "link down|up LINK", "Cut or mend links, such as h0.n1, l0.u1, s1.l0u1 or 'l0.*'", 2, 2, false,
     "--name --at --silent", run_link},
    {"rate", "rate LINK RATE", "Set the rate of links, both ways: 200mbit, 1.5gbit, none", 2, 2, false, "--name",
     run_rate},
    {"counters", "counters", "Bytes, packets and drops of each link, and how even the uplinks are", 0, 0, false,
     "--name --json --for --zero", run_counters},
    {"watch", "watch", "Rates of all links, every second", 0, 0, false, "--name --interval --count", run_watch},
    {"draw", "draw", "A picture (SVG) of the fabric, coloured by load", 0, 0, false, "--name --output --for", run_draw},
    {0},
};
