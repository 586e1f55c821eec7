/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices, their ports and the cables between them, as other programs have written them down; and the fabric's file
 * that they make. Several sources may tell of the same port: what one leaves out, another one adds. Sources that
 * contradict each other are refused.
 */
#ifndef PATHS_CABLING_H
#define PATHS_CABLING_H

#include "model/fabric.h"
#include "wiring/text.h"

#include <jansson.h>

/* devices: NAME to {"kind": "leaf", "ports": {NAME: {"far end": "DEVICE PORT", ...}}}, in the order of the sources. */
struct cabling_told {
    char device[FABRIC_NAME], port[2 * FABRIC_NAME], far[FABRIC_NAME], far_port[2 * FABRIC_NAME];
    bool own;
    const char *label;
};

struct cabling {
    json_t *devices;
    json_t *port_names; /* of SONiC, for the minigraphs that follow: ALIAS to {"name": NAME} */
    const char *label;  /* of the file that is read, which errors begin with; stays until cabling_close() */
    struct cabling_told *cables;
    size_t count, room; /* of cables */
};

enum cabling_kind { CABLING_HOST, CABLING_LEAF, CABLING_SPINE, CABLING_OTHER };

/* After error_note. cabling_close() also after a failure. */
tutti_result_t cabling_open(struct cabling *cabling);
void cabling_close(struct cabling *cabling);

/* NULL after error_note: the name cannot be one, or there is no memory. What is returned stays the cabling's. */
json_t *cabling_device(struct cabling *cabling, const char *name);
json_t *cabling_port(struct cabling *cabling, const char *device, const char *port);

/*
 * Sets a text of a row, both of which are made where they are missing. Another text that is there is refused: the row
 * "stands there twice, each time with another KEY". Rows are any texts.
 */
tutti_result_t cabling_once(const struct cabling *cabling, json_t *rows, const char *row, const char *key,
                            const char *value);
/* "LABEL: "WORD" WHY", without control characters. Returns TUTTI_INVALID_ARGUMENT. */
tutti_result_t cabling_bad_word(const struct cabling *cabling, const char *word, const char *why);

/* Two sources may tell the same kind, no other. */
tutti_result_t cabling_kind(struct cabling *cabling, const char *device, enum cabling_kind kind);
/* Others may call the port so, too. An alias of several ports is none. */
tutti_result_t cabling_alias(struct cabling *cabling, const char *device, const char *port, const char *alias);
/* `own`: `port` is what the device itself calls it, and no alias. Other ports may be aliases, of files to come, too. */
tutti_result_t cabling_cable(struct cabling *cabling, const char *device, const char *port, const char *far,
                             const char *far_port, bool own);
/* Once, after all files: ports get their far ends. */
tutti_result_t cabling_join(struct cabling *cabling);
/* "10.81.0.1/24", of a port. */
tutti_result_t cabling_address(struct cabling *cabling, const char *device, const char *port, const char *address);
/* The address of the far end, which the near one speaks to. */
tutti_result_t cabling_next(struct cabling *cabling, const char *device, const char *port, const char *address);
tutti_result_t cabling_vrf(struct cabling *cabling, const char *device, const char *port, const char *vrf);
tutti_result_t cabling_rate(struct cabling *cabling, const char *device, const char *port, uint64_t bits_per_second);
/* The port is one of several that are one to the far end: "PortChannel1", "bond0". */
tutti_result_t cabling_bundle(struct cabling *cabling, const char *device, const char *port, const char *bundle);

/* The port belongs to another network, of management. */
tutti_result_t cabling_apart(struct cabling *cabling, const char *device, const char *port);

/* Keys of a port, by families of addresses: [0] is IPv4. */
extern const char *const cabling_addresses[2], *const cabling_nexts[2];
/* 0: an IPv4 address, 1: an IPv6 one, -1: none. *bits: what stands behind '/', or all. */
int cabling_family(const char *text, int *bits);
/* An address as it is usually written, without '/': "FC00:0::71/126" is "fc00::71". Returns its family. */
int cabling_usual(const char *address, char out[FABRIC_ADDRESS]);

/* The file. After error_note: there is no leaf. */
tutti_result_t cabling_write(const struct cabling *cabling, struct text *out);

#endif
