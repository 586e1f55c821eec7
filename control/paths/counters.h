/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of switches' ports, from what others have written. */
#ifndef PATHS_COUNTERS_H
#define PATHS_COUNTERS_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COUNTERS_NAME 64
#define COUNTERS_MOST (1 << 20)  /* ports in all */
#define COUNTERS_FILE (64 << 20) /* bytes of a file */

struct sent_port {
    char leaf[COUNTERS_NAME], port[COUNTERS_NAME];
    uint64_t bytes; /* sent out of the port */
};

struct sent_bytes {
    struct sent_port *item;
    size_t count, room, next; /* `next`: where the last search ended, and the next one begins */
};

/*
 * Adds the counters of a text of `length` bytes: of `tutti-lab counters --json`; of Prometheus exporters
 * (node_network_transmit_bytes_total, ifHCOutOctets, interfaces_interface_state_counters_out_octets); of snmpwalk
 * (sysName, ifName, ifHCOutOctets); JSON of gnmic (out-octets of OpenConfig); or of SONiC's sonic-db-dump -n
 * COUNTERS_DB -y. `leaf` is the switch whose text does not name one. Errors begin
 * with `label`. counters_free() also after a failure.
 */
tutti_result_t counters_read(const char *label, const char *leaf, const char *text, size_t length,
                             struct sent_bytes *out);
void counters_free(struct sent_bytes *counters);

/* False: there is none of that port. A name may have a domain or ":PORT" behind that of the leaf. */
bool counters_find(struct sent_bytes *counters, const char *leaf, const char *port, uint64_t *bytes);

#endif
