/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a fabric's file, and the fabric that they describe. */
#include "file/reading.h"
#include "file/read.h"
#include "base/error.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT (16 << 20) /* bytes */

/* One way in seconds: 5 us in a rack, and 7, 15 and 30 times that (NCCLX section 3). */
static const double usual_latency[FABRIC_DISTANCES] = {1e-6, 5e-6, 35e-6, 75e-6, 150e-6};

static const struct config_key latency_keys[] = {
    {"host", read_time, FABRIC_HOST * sizeof(double), 0, 0},
    {"rack", read_time, FABRIC_RACK * sizeof(double), 0, 0},
    {"zone", read_time, FABRIC_ZONE * sizeof(double), 0, 0},
    {"building", read_time, FABRIC_BUILDING * sizeof(double), 0, 0},
    {"campus", read_time, FABRIC_CAMPUS * sizeof(double), 0, 0},
    {0},
};

static tutti_result_t read_latency(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out)
{
    return config_map(file, node, "latency", latency_keys, out);
}

static tutti_result_t read_wiring(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out)
{
    const char *text = config_text(node);
    if (!text || (strcmp(text, "rail") != 0 && strcmp(text, "rack") != 0))
        return config_fail(file, node, "wiring: \"%s\" is neither rack nor rail", config_shown(node));
    *(int *)out = strcmp(text, "rail") == 0;
    return TUTTI_SUCCESS;
}

#define CLOS(field) offsetof(struct fabric_clos, field)
static const struct config_key clos_keys[] = {
    {"buildings", config_int, CLOS(buildings), 1, 64}, {"zones", config_int, CLOS(zones), 1, 256},
    {"racks", config_int, CLOS(racks), 1, 4096},       {"hosts", config_int, CLOS(hosts), 1, 4096},
    {"gpus", config_int, CLOS(gpus), 1, 64},           {"nics", config_int, CLOS(nics), 1, 64},
    {"ports", config_int, CLOS(ports), 1, 2},          {"wiring", read_wiring, CLOS(rail), 0, 0},
    {"spines", config_int, CLOS(spines), 0, 1024},     {"uplinks", config_int, CLOS(uplinks), 1, 64},
    {"cores", config_int, CLOS(cores), 0, 4096},       {"rate", read_rate, CLOS(rate), 0, 0},
    {"uplink_rate", read_rate, CLOS(uplink), 0, 0},    {"core_rate", read_rate, CLOS(core), 0, 0},
    {"trunk", read_rate, CLOS(trunk), 0, 0},           {0},
};

#define ROOT(field) offsetof(struct reading, field)
static const struct config_key root_keys[] = {
    {"name", read_name, ROOT(fabric.name), 0, 0},
    {"latency", read_latency, ROOT(fabric.latency), 0, 0},
    {"gpu_rate", read_rate, ROOT(fabric.gpu_rate), 0, 0},
    {"rate", read_rate, ROOT(rate), 0, 0},
    {"vendor", read_node, ROOT(vendor), 0, 0},
    {"ranges", config_int, ROOT(ranges), 1, 16384},
    {"clos", read_node, ROOT(clos), 0, 0},
    {"buildings", read_node, ROOT(lists.buildings), 0, 0},
    {"zones", read_node, ROOT(lists.zones), 0, 0},
    {"spines", read_node, ROOT(lists.spines), 0, 0},
    {"leaves", read_node, ROOT(lists.leaves), 0, 0},
    {"hosts", read_node, ROOT(lists.hosts), 0, 0},
    {0},
};

/* An item without a rate has the rate of the whole file. */
static void default_rate(double *rate, double otherwise)
{
    *rate = *rate > 0 ? *rate : otherwise;
}

static tutti_result_t read_clos(struct reading *r)
{
    struct fabric_clos clos = {.buildings = 1,
                               .zones = 1,
                               .racks = 1,
                               .hosts = 1,
                               .gpus = 8,
                               .nics = 8,
                               .ports = 1,
                               .spines = 1,
                               .uplinks = 1,
                               .trunk = INFINITY};
    struct config_file *file = r->file;
    tutti_result_t result = config_map(file, r->clos, "clos", clos_keys, &clos);
    if (result)
        return result;
    if (r->lists.spines || r->lists.leaves || r->lists.hosts || r->lists.zones || r->lists.buildings)
        return config_fail(file, r->clos,
                           "clos: a file has either clos or the lists buildings, zones, spines, leaves, hosts");
    default_rate(&clos.rate, r->rate);
    default_rate(&clos.uplink, clos.rate);
    default_rate(&clos.core, clos.uplink);
    if (!(clos.rate > 0))
        return config_fail(file, r->clos, "clos: its links have no rate; add a line such as \"rate: 400gbit\"");
    if (!clos.spines && clos.racks * (clos.rail ? clos.nics : 1) * clos.ports > 1)
        return config_fail(file, config_place(file, r->clos, "spines"),
                           "spines: several leaves need at least 1 spine between them");
    if (!clos.cores && clos.buildings * clos.zones > 1)
        return config_fail(file, config_place(file, r->clos, "cores"),
                           "cores: %d zones need links to the core: write how many each spine has",
                           clos.buildings * clos.zones);
    result = fabric_from_clos(&clos, &r->fabric);
    return result ? config_fail(file, r->clos, "clos: %s", error_last()) : TUTTI_SUCCESS;
}

static tutti_result_t read_whole(struct reading *r, yaml_node_t *root)
{
    struct config_file *file = r->file;
    if (!root)
        return config_fail(file, NULL, "the file is empty; begin with a line such as \"name: pod\"");
    tutti_result_t result = config_map(file, root, "a fabric", root_keys, r);
    if (result)
        return result;
    if (!r->fabric.name[0])
        return config_fail(file, root, "the fabric has no name; add a line such as \"name: pod\"");
    if (!r->clos && !r->lists.hosts)
        return config_fail(file, root, "the fabric has no hosts; add clos, or the lists spines, leaves and hosts");
    result = r->clos ? read_clos(r) : reading_lists(r, root);
    if (!result && !r->fabric.gpus)
        result = config_fail(file, root, "the fabric has no GPUs");
    return result;
}

static tutti_result_t build(struct config_file *file, void *out)
{
    struct reading r = {.file = file, .fabric = {.gpu_rate = INFINITY}};
    memcpy(r.fabric.latency, usual_latency, sizeof usual_latency);
    tutti_result_t result = read_whole(&r, yaml_document_get_root_node(&file->document));
    reading_free(&r);
    if (result)
        fabric_free(&r.fabric);
    *(struct fabric *)out = r.fabric;
    return result;
}

tutti_result_t fabric_parse(const char *label, const char *yaml, size_t length, struct fabric *out)
{
    *out = (struct fabric){0};
    return config_document(label, yaml, length, build, out);
}

tutti_result_t fabric_load(const char *path, struct fabric *out)
{
    char *data = NULL;
    size_t length = 0;
    *out = (struct fabric){0};
    tutti_result_t result = config_read_file(path, FILE_LIMIT, &data, &length);
    if (!result)
        result = fabric_parse(path, data, length, out);
    free(data);
    return result;
}

static tutti_result_t recognise(struct config_file *file, void *out)
{
    static const char *const lists[] = {"hosts", "leaves", "spines"};
    yaml_node_t *root = yaml_document_get_root_node(&file->document);
    bool is = false;
    if (root && root->type == YAML_MAPPING_NODE) {
        is = config_place(file, root, "clos") != root;
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
            is = is || config_place(file, root, lists[i])->type == YAML_SEQUENCE_NODE;
    }
    *(bool *)out = is;
    return TUTTI_SUCCESS;
}

tutti_result_t fabric_recognise(const char *path, bool *is_fabric)
{
    char *data = NULL;
    size_t length = 0;
    tutti_result_t result = config_read_file(path, FILE_LIMIT, &data, &length);
    if (!result)
        result = config_document(path, data, length, recognise, is_fabric);
    free(data);
    return result;
}
