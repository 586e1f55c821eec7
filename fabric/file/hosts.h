/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of hosts, as launchers have them: a line for each host, with words behind its name. */
#ifndef TUTTI_FABRIC_HOSTS_H
#define TUTTI_FABRIC_HOSTS_H

#include "model/fabric.h"

/* A line as it stands; host -1: it names none (empty, or a comment). */
struct host_line {
    char *text;
    int32_t host;
};

struct host_list {
    int count;
    struct host_line *line;
};

/*
 * Finds a host by its name, by the first part of it, or by the address of one of its NICs; ":SLOTS" may follow. Refused
 * with the number of the line: a host that the fabric does not have; one that is there twice, unless `again`. Lines
 * without a host are left out. host_list_free() after success.
 */
tutti_result_t host_list_load(const char *path, const struct fabric *fabric, bool again, struct host_list *out);
tutti_result_t host_list_parse(const char *label, const char *text, const struct fabric *fabric, bool again,
                               struct host_list *out);
void host_list_free(struct host_list *list);

#endif
