/* SPDX-License-Identifier: Apache-2.0 */
#include "pathmaster/names.h"

#include "base/error.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

bool names_address(const char *text, uint8_t out[16])
{
    memset(out, 0, 10);
    out[10] = out[11] = 0xff;
    return inet_pton(AF_INET, text, out + 12) == 1 || inet_pton(AF_INET6, text, out) == 1;
}

static int by_address(const void *left, const void *right)
{
    const struct names_nic *a = left, *b = right;
    return memcmp(a->address, b->address, sizeof a->address);
}

tutti_result_t names_open(struct fabric_names *names, const struct fabric *fabric)
{
    int32_t twice = -1;
    *names = (struct fabric_names){.fabric = fabric};
    names->nic = calloc((size_t)fabric->nics + 1, sizeof *names->nic);
    if (!names->nic || !name_index_make(&names->leaves, fabric->leaf, sizeof *fabric->leaf, fabric->leaves, &twice))
        return error_note(TUTTI_SYSTEM_ERROR, "no memory for the names of %d NICs", fabric->nics);
    for (int32_t n = 0; n < fabric->nics; n++)
        if (names_address(fabric->nic[n].address, names->nic[names->nics].address))
            names->nic[names->nics++].nic = n;
    qsort(names->nic, (size_t)names->nics, sizeof *names->nic, by_address);
    for (int32_t n = 1; n < names->nics; n++)
        if (by_address(&names->nic[n - 1], &names->nic[n]) == 0)
            return error_note(TUTTI_INVALID_ARGUMENT, "two NICs of the fabric have the address %s",
                              fabric->nic[names->nic[n].nic].address);
    if (!names->nics)
        return error_note(TUTTI_INVALID_ARGUMENT, "no NIC of the fabric has an address: no lane could be found in it");
    return TUTTI_SUCCESS;
}

void names_close(struct fabric_names *names)
{
    free(names->nic);
    name_index_free(&names->leaves);
    *names = (struct fabric_names){0};
}

int32_t names_nic(const struct fabric_names *names, const uint8_t address[16])
{
    struct names_nic key;
    memcpy(key.address, address, sizeof key.address);
    const struct names_nic *found = bsearch(&key, names->nic, (size_t)names->nics, sizeof *names->nic, by_address);
    return found ? found->nic : -1;
}

int32_t names_uplink(const struct fabric_names *names, const char *name)
{
    char leaf[FABRIC_NAME], *end;
    const char *dot = strrchr(name, '.');
    if (!dot || dot[1] != 'u' || dot[2] < '0' || dot[2] > '9' || dot - name >= FABRIC_NAME)
        return -1;
    memcpy(leaf, name, (size_t)(dot - name));
    leaf[dot - name] = 0;
    int32_t at = name_index_find(&names->leaves, leaf);
    unsigned long number = strtoul(dot + 2, &end, 10);
    bool known = at >= 0 && !*end && number < (unsigned long)names->fabric->leaf[at].count;
    return known ? names->fabric->leaf[at].first + (int32_t)number : -1;
}
