/* SPDX-License-Identifier: Apache-2.0 */
/* The software RDMA device under a test's command. */
#include "soft.h"
#include "base/clock.h"
#include "base/param.h"
#include "suite.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef int (*control_fn)(const char *command, char *answer, size_t size);
static control_fn device_control;
char soft_answer[16384];

bool soft_here(void)
{
    void *library =
        strcmp(under_test->name, "verbs") == 0 ? dlopen(param_string(PARAM_IBVERBS_LIBRARY), RTLD_NOW) : NULL;
    void *symbol = library ? dlsym(library, "softverbs_control") : NULL;
    memcpy(&device_control, &symbol, sizeof symbol);
    return symbol;
}

void soft_command(const char *text)
{
    assert_int_equal(device_control(text, soft_answer, sizeof soft_answer), 0);
}

int soft_ports(char first[32])
{
    struct transport_nic about;
    struct party party;
    int count = 0;
    party_open(&party);
    while (under_test->nic(party.transport, (unsigned)count, &about))
        if (!count++)
            memcpy(first, about.name, sizeof about.name);
    party_close(&party);
    assert_true(count > 0);
    return count;
}

void soft_set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
    param_reload();
}

int soft_entries(const char *folder)
{
    int count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

struct both soft_open(struct pair *pair, uint16_t index)
{
    struct both both = {.at = end_open(&pair->a, &pair->b.self, index, 1)};
    pair_until(pair, both.at->counts[NOTE_UP] && (both.bt = end_accepted(&pair->b, index)) != NULL);
    return both;
}

void soft_carries(struct pair *pair, const struct both *lane)
{
    size_t before = lane->bt->counts[NOTE_MESSAGE];
    assert_int_equal(send_pattern(lane->at, 1, 1000, 1), TUTTI_SUCCESS);
    pair_until(pair, lane->bt->counts[NOTE_MESSAGE] == before + 1);
}
