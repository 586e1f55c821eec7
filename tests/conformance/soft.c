/* SPDX-License-Identifier: Apache-2.0 */
/* The software RDMA device under a test's command. */
#include "soft.h"
#include "base/clock.h"
#include "base/param.h"
#include "suite.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

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

/* Tries, as a link does, until the lane is up at both ends. */
struct both soft_open_at_last(struct pair *pair, uint16_t index)
{
    struct both both = {0};
    while (!both.bt) {
        both.at = end_new(&pair->a);
        if (under_test->lane_open(pair->a.transport, &pair->b.self, index, 1, 0, 0, both.at, &both.at->lane) !=
            TUTTI_SUCCESS)
            both.at->lane = NULL;
        else
            soft_until(pair, both.at->counts[NOTE_DOWN] ||
                                 (both.at->counts[NOTE_UP] && (both.bt = end_accepted(&pair->b, index))));
        if (both.bt)
            break;
        end_drop(both.at);
        soft_until(pair, true);
        party_sleep(&pair->a, 5);
        party_sleep(&pair->b, 5);
    }
    return both;
}

/* An end that went down is closed, by which the other one learns of it. */
static bool is_closed(struct end *end)
{
    if (end->counts[NOTE_DOWN])
        end_close(end);
    return !end->lane;
}

void soft_drop(struct pair *pair, struct both *both)
{
    soft_until(pair, (int)is_closed(both->at) + is_closed(both->bt) == 2);
    end_drop(both->at);
    end_drop(both->bt);
}

/* ---- What is held ---- */

static int count_lines(const char *path)
{
    int count = 0, byte;
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while ((byte = fgetc(file)) != EOF)
        count += byte == '\n';
    fclose(file);
    return count;
}

/* But for the sockets that the software device keeps for each source port it has sent from. */
static int count_fds(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        int type = 0;
        socklen_t size = sizeof type;
        bool is_socket = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
        count += fcntl(fd, F_GETFD) >= 0 && !(is_socket && type == SOCK_DGRAM);
    }
    return count;
}

struct soft_holdings soft_holdings(void)
{
    struct soft_holdings now = {count_fds(), soft_entries("/proc/self/task"), count_lines("/proc/self/maps"), 0, 0};
    soft_command("info");
    for (const char *at = soft_answer; (at = strstr(at, "qp 0x")); at++)
        now.pairs++;
    const char *regions = strstr(soft_answer, "regions ");
    assert_non_null(regions);
    now.regions = atoi(regions + strlen("regions "));
    return now;
}
