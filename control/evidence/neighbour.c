/* SPDX-License-Identifier: Apache-2.0 */
/* The port of the switch at an interface, as a daemon of LLDP on this host knows it. */
#include "evidence/parts.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_BYTES (64u << 10)
#define ANSWER_MS    2000

static const char *text_in(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

/* One interface: {"chassis": {"NAME": {...}}, "port": {"id": {"type": "ifname", "value": "Ethernet4"}, "descr": ...}}.
 */
static bool say_neighbour(const json_t *value, const char *interface, char line[EVIDENCE_LINE])
{
    const json_t *chassis = json_object_get(value, "chassis"), *port = json_object_get(value, "port"),
                 *id = json_object_get(port, "id");
    const char *name =
        json_object_size(chassis) == 1 ? json_object_iter_key(json_object_iter((json_t *)chassis)) : NULL;
    const char *type = text_in(id, "type"), *number = text_in(id, "value"), *described = text_in(port, "descr");
    const char *there = type && strcmp(type, "ifname") == 0 ? number : described ? described : number;
    if (!name || !there)
        return false;
    snprintf(line, EVIDENCE_LINE, "%.32s is at port %.60s of switch %.60s, says LLDP", interface, there,
             strcmp(name, "id") == 0 ? "(no name)" : name);
    evidence_clean(line);
    return true;
}

/* The value is an object, or, of several, an array of objects. */
bool neighbour_in(const char *json, size_t size, const char *interface, char line[EVIDENCE_LINE])
{
    json_t *all = json_loadb(json, size, 0, NULL), *found = json_object_get(json_object_get(all, "lldp"), "interface");
    bool told = say_neighbour(json_object_get(found, interface), interface, line);
    for (size_t i = 0; !told && i < json_array_size(found); i++)
        told = say_neighbour(json_object_get(json_array_get(found, i), interface), interface, line);
    json_decref(all);
    return told;
}

/* The interface of an RDMA adapter; the name itself of others. */
static void interface_of(const char *name, char *out, size_t size)
{
    char folder[128];
    snprintf(out, size, "%s", name);
    snprintf(folder, sizeof folder, "/sys/class/infiniband/%s/device/net", name);
    DIR *all = strchr(name, '/') ? NULL : opendir(folder);
    for (struct dirent *entry; all && (entry = readdir(all));)
        if (*entry->d_name != '.')
            snprintf(out, size, "%.31s", entry->d_name);
    if (all)
        closedir(all);
}

bool neighbour_line(const char *interface, char line[EVIDENCE_LINE])
{
    char name[32], *answer = malloc(ANSWER_BYTES);
    interface_of(interface, name, sizeof name);
    char *const argv[] = {"lldpcli", "-f", "json", "show", "neighbors", "ports", name, NULL};
    bool told = answer && *name != '-' && child_run(argv, ANSWER_MS, answer, ANSWER_BYTES) &&
                neighbour_in(answer, strlen(answer), name, line);
    free(answer);
    return told;
}
