/* SPDX-License-Identifier: Apache-2.0 */
/* Any text to the reader of fabrics' files, and to that of lists of hosts: what it takes is whole, what it refuses has
 * a place and a sentence. An even first byte: the others are words of these files. */
#include "base/error.h"
#include "file/hosts.h"
#include "file/read.h"
#include "inputs.h"

#include <stdlib.h>
#include <string.h>

static const char *const words[] = {
    "name: ",
    "x",
    "h[0-3]",
    "h[08-11]",
    "[1-99999]",
    "latency: ",
    "rack: ",
    "5us",
    "gpu_rate: ",
    "rate: ",
    "1gbit",
    "none",
    "9tbit",
    "clos: ",
    "buildings: ",
    "zones: ",
    "spines: ",
    "leaves: ",
    "hosts: ",
    "racks: ",
    "nics: ",
    "gpus: ",
    "ports: ",
    "wiring: ",
    "rail",
    "uplinks: ",
    "cores: ",
    "trunk: ",
    "core_rate: ",
    "spine: ",
    "links: ",
    "down: ",
    "true",
    "leaf: ",
    "bond: ",
    "address: ",
    "10.0.0.1",
    "1",
    "2",
    "4096",
    "{",
    "}",
    "[",
    "]",
    ", ",
    "\n",
    "\n- ",
    "\n  ",
    "\n  - ",
    "&a ",
    "*a",
    "zone: ",
    "building: ",
    "uplink_rate: ",
    "0",
    "-1",
    "\"",
    "!!int ",
    "? ",
    ": ",
    "name: x\nrate: 1gbit\n",
    "clos: {racks: 2, hosts: 2",
    "spines: [{name: s}]\n",
    "leaves: [{name: l, uplinks: [{spine: s}]}]\n",
    "hosts: [{name: h, nics: [{leaf: l}]}]\n",
    "vendor: ",
    "sonic",
    "ranges: ",
    "port: ",
    "spine_port: ",
    "next_hop: ",
    "vrf: ",
    "prefixes: ",
    "10.1.0.0/16",
    "fe80::1",
};

static void check(const struct fabric *f)
{
    must(f->gpus >= 1 && f->gpus <= FABRIC_GPUS && f->hosts >= 1 && f->name[0]);
    for (int32_t n = 0; n < f->nics; n++)
        for (int32_t p = 0; p < f->nic[n].ports; p++)
            must(f->nic[n].port[p].leaf >= 0 && f->nic[n].port[p].leaf < f->leaves && f->nic[n].port[p].rate > 0);
    for (int32_t u = 0; u < f->uplinks; u++)
        must(*fabric_word(f, f->uplink[u].wire.port) != ' ' && f->uplink[u].leaf < f->leaves &&
             f->uplink[u].spine < f->spines && f->uplink[u].rate > 0 &&
             f->leaf[f->uplink[u].leaf].zone == f->spine[f->uplink[u].spine].zone);
    for (int32_t g = 0; g < f->gpus && g < 64; g++)
        must(f->nic[fabric_nic_of(f, g, g)].host == f->gpu_host[g]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char small[] = "name: x\nclos: {rate: 1gbit, hosts: 4}\n";
    struct fabric fabric;
    struct host_list list;
    size_t length = size && data[0] % 2 ? size : 0;
    char *text = text_of(words, sizeof words / sizeof *words, data, size, NULL);
    if (fabric_parse("fuzz", text, length ? length : strlen(text), &fabric) == TUTTI_SUCCESS) {
        check(&fabric);
        fabric_free(&fabric);
    } else {
        must(strncmp(error_last(), "fuzz:", 5) == 0);
    }
    must(fabric_parse("small", small, strlen(small), &fabric) == TUTTI_SUCCESS);
    if (host_list_parse("fuzz", text, &fabric, size % 2, &list) == TUTTI_SUCCESS) {
        must(list.count > 0);
        host_list_free(&list);
    }
    fabric_free(&fabric);
    free(text);
    return 0;
}
