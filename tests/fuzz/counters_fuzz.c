/* SPDX-License-Identifier: Apache-2.0 */
/* Any text to the readers of switches' counters and of hosts' neighbours: what they take has names and is found again,
 * what they refuse has a sentence. An even first byte: the others are words of exporters, of walks and of JSON. */
#include "base/error.h"
#include "paths/counters.h"
#include "paths/import.h"
#include "inputs.h"

#include <stdlib.h>
#include <string.h>

static const char *const words[] = {
    "node_network_transmit_bytes_total",
    "ifHCOutOctets",
    "{",
    "}",
    "device",
    "ifName",
    "instance",
    "=",
    "\"",
    "\\",
    "a",
    "rack1",
    ",",
    " ",
    "\n",
    "1",
    "1.5e+12",
    "-1",
    "NaN",
    "99999999999999999999",
    "IF-MIB::ifName.",
    "IF-MIB::ifHCOutOctets.",
    ".1.3.6.1.2.1.31.1.1.1.1.",
    "iso.3.6.1.2.1.31.1.1.1.10.",
    "SNMPv2-MIB::sysName.0 = STRING: r\n",
    " = Counter64: ",
    " = STRING: ",
    " = ",
    "::",
    "node_network_transmit_bytes_total{device=\"a\"} 5\n",
    "{\"links\": [",
    "{\"name\": \"l0.u0\", \"up\": {\"bytes\": 5}}",
    "]}",
    "{\"lldp\": {\"interface\": ",
    "{\"eth0\": {\"chassis\": {\"leaf1\": {}}, \"port\": {\"id\": {\"type\": \"ifname\", \"value\": \"a\"}}}}",
    "{\"chassis\": ",
    "{\"port\": ",
    "}}",
    "[",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sent_bytes sent = {0};
    uint64_t bytes;
    size_t length;
    char *text = text_of(words, sizeof words / sizeof *words, data, size, &length);
    if (counters_read("fuzz", "leaf", text, length, &sent) == TUTTI_SUCCESS) {
        must(sent.count > 0);
        for (size_t i = 0; i < sent.count && i < 16; i++) {
            must(memchr(sent.item[i].leaf, 0, COUNTERS_NAME) && memchr(sent.item[i].port, 0, COUNTERS_NAME));
            must(counters_find(&sent, sent.item[i].leaf, sent.item[i].port, &bytes));
        }
    } else {
        must(strncmp(error_last(), "fuzz:", 5) == 0);
    }
    counters_free(&sent);
    static struct neighbours import;
    import.leaves = 0;
    if (import_lldp("fuzz", "node01", text, length, &import) == TUTTI_SUCCESS)
        must(import.leaves > 0 && text_ok(&import.hosts) == TUTTI_SUCCESS);
    else
        must(strncmp(error_last(), "fuzz:", 5) == 0);
    text_free(&import.hosts);
    free(text);
    return 0;
}
