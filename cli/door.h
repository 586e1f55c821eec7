/* SPDX-License-Identifier: Apache-2.0 */
/* Options of commands that listen to agents: where, and with which certificate. */
#ifndef TUTTI_CLI_DOOR_H
#define TUTTI_CLI_DOOR_H

#include "serve/serve.h"

struct door_wishes {
    const char *address, *certificate, *key, *client_ca;
    bool plain;
};

/* -1: the options go together; else the exit status of the command, which was told what is wrong. */
int door_check(const char *command, const struct door_wishes *wishes);
/* The caller frees *out by door_free, also after false, which comes after error_note. */
bool door_load(const struct door_wishes *wishes, struct serve_door *out);
void door_free(struct serve_door *door);

#endif
