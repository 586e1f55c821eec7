/* SPDX-License-Identifier: Apache-2.0 */
/* Any text to the readers of switches' counters and of networks that others describe: what they take has names and is
 * found again, what they refuse has a sentence. An even first byte: the others are words of what they read. */
#include "base/error.h"
#include "file/read.h"
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
    "{\"DEVICE_METADATA\": {\"localhost\": {\"hostname\": \"leaf1\", \"type\": \"LeafRouter\"}}",
    ", \"PORT\": {\"Ethernet0\": {\"speed\": \"100000\"}}",
    ", \"DEVICE_NEIGHBOR\": {\"Ethernet0\": {\"name\": \"spine1\", \"port\": \"Ethernet4\"}}",
    ", \"BGP_NEIGHBOR\": {\"10.0.0.1\": {\"name\": \"spine1\", \"local_addr\": \"10.0.0.0\"}}",
    ", \"INTERFACE\": {\"Ethernet0|10.0.0.0/31\": {}}",
    ", \"PORTCHANNEL_MEMBER\": {\"PortChannel1|Ethernet0\": {}}",
    "name,role\n",
    "device,name,type,lag,speed\n",
    "side_a_device,side_a_name,side_b_device,side_b_name\n",
    "address,device,interface\n",
    "10.0.0.0/31",
    "leaf1",
    "spine",
    "leaf",
    "{\"updates\": [{\"Path\": \"interface[name=",
    "]/out-octets\", \"values\": {\"out-octets\": ",
    "{\"COUNTERS_PORT_NAME_MAP\": {\"value\": {\"a\": \"oid:0x1\"}}, \"COUNTERS:oid:0x1\": {\"value\": {",
    "\"SAI_PORT_STAT_IF_OUT_OCTETS\": ",
};

/* What is written of any network can be read as a fabric's file, or is refused with a sentence. */
static void import_any(const char *text, size_t length)
{
    struct cabling cabling;
    struct text out = {0};
    struct fabric fabric = {0};
    must(cabling_open(&cabling) == TUTTI_SUCCESS);
    if (import_text("fuzz", "node01", text, length, &cabling) != TUTTI_SUCCESS)
        must(strncmp(error_last(), "fuzz:", 5) == 0);
    else if (cabling_join(&cabling) != TUTTI_SUCCESS || cabling_write(&cabling, &out) != TUTTI_SUCCESS ||
             fabric_parse("fuzz", out.data, out.length, &fabric))
        must(strncmp(error_last(), "fuzz:", 5) == 0);
    fabric_free(&fabric);
    text_free(&out);
    cabling_close(&cabling);
}

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
    import_any(text, length);
    free(text);
    return 0;
}
