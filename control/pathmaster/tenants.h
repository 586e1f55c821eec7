/* SPDX-License-Identifier: Apache-2.0 */
/* The tenants who may ask: lines "NAME TOKEN [LANES] [operator] [prober]" of a file. */
#ifndef TUTTI_PATHMASTER_TENANTS_H
#define TUTTI_PATHMASTER_TENANTS_H

#include "report/token.h"

#include <stdbool.h>
#include <stdint.h>

#define TENANTS_MOST 1024
#define TENANT_NAME  64

struct tenant {
    char name[TENANT_NAME];
    int32_t most;  /* lanes at a time; 0: any number */
    bool operates; /* may say how uplinks are */
    bool probes;   /* its hosts may say what their probes found */
};

struct tenants {
    int count;
    struct tenant *tenant;
    struct token *token; /* of each */
};

/* tenants_free() also after a failure, which comes after error_note. */
tutti_result_t tenants_load(const char *path, struct tenants *out);
tutti_result_t tenants_parse(const char *label, char *text, struct tenants *out);
void tenants_free(struct tenants *tenants);

#endif
