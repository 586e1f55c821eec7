/* SPDX-License-Identifier: Apache-2.0 */
/* Any text to the reader of SONiC's minigraphs: what it takes gives the same fabric when it is read twice, what it
 * refuses has a sentence. An even first byte: the others are elements and texts of minigraphs, well-formed. */
#include "base/error.h"
#include "file/read.h"
#include "paths/import.h"
#include "inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPEN 40 /* elements in each other; more than the reader takes */

/* "<" opens an element, "=" is an element with a text, others stand as they are. */
static const char *const words[] = {
    "",
    "<CpgDec",
    "<PeeringSessions",
    "<BGPSession",
    "<DpgDec",
    "<DeviceDataPlaneInfo",
    "<PortChannelInterfaces",
    "<PortChannel",
    "<VlanInterfaces",
    "<VlanInterface",
    "<IPInterfaces",
    "<IPInterface",
    "<PngDec",
    "<DeviceInterfaceLinks",
    "<DeviceLinkBase",
    "<Devices",
    "<Device",
    "<DeviceInfos",
    "<DeviceInfo",
    "<a:EthernetInterfaces",
    "<a:EthernetInterface",
    "=Hostname leaf1",
    "=Hostname spine1",
    "=HwSku a",
    "=ElementType ToRRouter",
    "=ElementType LeafRouter",
    "=ElementType Server",
    "=ElementType DeviceInterfaceLink",
    "=StartRouter leaf1",
    "=EndRouter spine1",
    "=StartPeer 10.0.0.0",
    "=EndPeer 10.0.0.1",
    "=StartDevice leaf1",
    "=EndDevice spine1",
    "=StartPort Ethernet0",
    "=EndPort Ethernet4",
    "=EndPort etp1",
    "=Bandwidth 100000",
    "=Speed 99999999999999999999",
    "=InterfaceName etp1",
    "=SonicName Ethernet0",
    "=Name PortChannel1",
    "=Name hosts",
    "=VlanID 100",
    "=AttachTo Ethernet0;etp1",
    "=AttachTo PortChannel1",
    "=AttachTo hosts",
    "=AttachTo Ethernet0",
    "=Prefix 10.0.0.0/31",
    "=Prefix FC00:0::/127",
    "x",
    "|",
    ";",
    "&#10;",
    "&lt;",
    "&b;",
    "<!-- -->",
    "<![CDATA[<]]>",
    "<!DOCTYPE a>",
    /* whole ones, which random bytes seldom make */
    "<DpgDec><DeviceDataPlaneInfo><Hostname>leaf1</Hostname><PortChannelInterfaces><PortChannel><Name>PortChannel1"
    "</Name><AttachTo>Ethernet0</AttachTo></PortChannel></PortChannelInterfaces><IPInterfaces><IPInterface><AttachTo>"
    "PortChannel1</AttachTo><Prefix>10.0.0.0/31</Prefix></IPInterface></IPInterfaces></DeviceDataPlaneInfo></DpgDec>",
    "<PngDec><DeviceInterfaceLinks><DeviceLinkBase><ElementType>DeviceInterfaceLink</ElementType><StartDevice>leaf1"
    "</StartDevice><StartPort>Ethernet0</StartPort><EndDevice>spine1</EndDevice><EndPort>etp1</EndPort></"
    "DeviceLinkBase>"
    "</DeviceInterfaceLinks><Devices><Device><Hostname>leaf1</Hostname><ElementType>ToRRouter</ElementType></Device>"
    "<Device><Hostname>spine1</Hostname><ElementType>LeafRouter</ElementType></Device></Devices></PngDec>",
    "<CpgDec><PeeringSessions><BGPSession><StartRouter>leaf1</StartRouter><StartPeer>10.0.0.0</StartPeer><EndRouter>"
    "spine1</EndRouter><EndPeer>10.0.0.1</EndPeer></BGPSession></PeeringSessions></CpgDec>",
};

/* Elements that are open are closed by 255, and at the end. */
static void build(const uint8_t *data, size_t size, struct text *out)
{
    const char *open[OPEN];
    int depth = 0;
    text_add(out, "<DeviceMiniGraph>");
    for (size_t i = 1; i < size; i++) {
        const char *word = words[data[i] % (sizeof words / sizeof *words)], *blank = strchr(word, ' ');
        if ((data[i] > 200 || !*word) && depth)
            text_add(out, "</%s>", open[--depth] + 1);
        else if (*word == '=')
            text_add(out, "<%.*s>%s</%.*s>", (int)(blank - word - 1), word + 1, blank + 1, (int)(blank - word - 1),
                     word + 1);
        else if (*word == '<' && !strchr(word, '>') && depth < OPEN)
            text_add(out, "%s>", open[depth++] = word);
        else if (*word != '<' || strchr(word, '>'))
            text_add(out, "%s", word);
    }
    while (depth)
        text_add(out, "</%s>", open[--depth] + 1);
    text_add(out, "</DeviceMiniGraph>");
}

/* False: refused, with a sentence. */
static bool import(const struct text *in, int times, struct text *out)
{
    struct cabling cabling;
    struct fabric fabric = {0};
    must(cabling_open(&cabling) == TUTTI_SUCCESS);
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < times && !result; i++)
        result = import_text("fuzz", "node01", in->data, in->length, &cabling);
    if (!result)
        result = cabling_join(&cabling);
    if (!result)
        result = cabling_write(&cabling, out);
    if (!result && fabric_parse("fuzz", out->data, out->length, &fabric) == TUTTI_SUCCESS)
        fabric_free(&fabric);
    else
        must(strncmp(error_last(), "fuzz:", 5) == 0);
    cabling_close(&cabling);
    return !result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct text in = {0}, once = {0}, twice = {0};
    if (size && data[0] % 2)
        text_append(&in, (const char *)data, size);
    else
        build(data, size, &in);
    if (import(&in, 1, &once)) {
        must(import(&in, 2, &twice));
        must(strcmp(once.data, twice.data) == 0);
    }
    text_free(&in);
    text_free(&once);
    text_free(&twice);
    return 0;
}
