/* SPDX-License-Identifier: Apache-2.0 */
/* NICs by their addresses, and uplinks by their names. */
#ifndef TUTTI_PATHMASTER_NAMES_H
#define TUTTI_PATHMASTER_NAMES_H

#include "file/values.h"
#include "paths/paths.h"

struct fabric_names {
    const struct fabric *fabric;
    struct names_nic {
        uint8_t address[16];
        int32_t nic;
    } * nic;
    int32_t nics;
    struct name_index leaves;
};

/* TUTTI_INVALID_ARGUMENT after error_note: two NICs have one address. names_close() also after a failure. */
tutti_result_t names_open(struct fabric_names *names, const struct fabric *fabric);
void names_close(struct fabric_names *names);

/* "10.0.0.1" or "fd10::1"; false: the text is none. */
bool names_address(const char *text, uint8_t out[16]);
int32_t names_nic(const struct fabric_names *names, const uint8_t address[16]); /* -1: the fabric has none */
int32_t names_uplink(const struct fabric_names *names, const char *name); /* "rack1.u3"; -1: the fabric has none */

#endif
