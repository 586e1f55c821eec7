/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to agree on a unique id: an address that all know, or a fresh id that the launcher carries. */
#include "base/error.h"
#include "base/net.h"
#include "base/param.h"
#include "base/random.h"
#include "base/siphash.h"
#include "bootstrap/env_kind.h"
#include "wire/bootstrap.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool hex_read(const char *text, void *out, size_t size)
{
    unsigned char *bytes = out;
    if (strlen(text) != 2 * size)
        return false;
    for (size_t i = 0; i < size; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        bytes[i] = (unsigned char)(high * 16 + low);
    }
    return true;
}

void env_id_to_text(const tutti_unique_id_t *id, char out[ENV_ID_TEXT])
{
    for (size_t i = 0; i < sizeof id->bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", (unsigned char)id->bytes[i]);
}

bool env_id_from_text(const char *text, tutti_unique_id_t *out)
{
    return hex_read(text, out, sizeof *out);
}

static void hash_text(const char *text, unsigned generation, const uint8_t key[16], uint8_t out[16])
{
    char whole[700];
    int length = snprintf(whole, sizeof whole, "%.650s %u", text, generation);
    siphash(key, whole, (size_t)length, out);
}

/* As secret as what it is made of. Given nonces are mixed with the generation, so that communicators cannot meet by
 * mistake. */
static tutti_result_t make_nonce(const char *secret, unsigned generation, uint8_t nonce[BOOT_NONCE])
{
    uint8_t key[16] = "tutti job nonce";
    const char *given = param_string(PARAM_NONCE);
    if (*given && !hex_read(given, key, sizeof key))
        return error_set(TUTTI_INVALID_ARGUMENT, "%s: want 32 hexadecimal digits, the same on all ranks",
                         param_source(PARAM_NONCE));
    hash_text(*given ? "" : secret, generation, key, nonce);
    return TUTTI_SUCCESS;
}

unsigned env_port_from(const char *secret)
{
    uint8_t hash[16];
    hash_text(secret, 0, (const uint8_t *)"tutti job port.", hash);
    return NET_PORT_FIRST + (hash[0] | (unsigned)hash[1] << 8 | (unsigned)hash[2] << 16) % NET_PORT_COUNT;
}

static tutti_result_t later_port(struct net_address *at, const char *what, const char *address, unsigned generation)
{
    unsigned port = net_port(at) + generation;
    if (!net_port(at))
        return error_set(TUTTI_INVALID_USAGE, "%s=%.200s: the port must not be 0, for all ranks must know it", what,
                         address);
    if (port > 65535)
        return error_set(TUTTI_INVALID_USAGE, "%s=%.200s: communicator %u needs port %u; take a lower one", what,
                         address, generation, port);
    net_set_port(at, (uint16_t)port);
    return TUTTI_SUCCESS;
}

/* The own name of a host often means loopback there. Other hosts must be given an address that they can use. */
static tutti_result_t leave_loopback(const char *address, struct net_address *at)
{
    struct net_interface best;
    int count;
    bool local = strncmp(address, "localhost:", 10) == 0 || net_is_numeric(address);
    if (local || !net_is_loopback(at))
        return TUTTI_SUCCESS;
    tutti_result_t result = net_interfaces(&best, 1, &count);
    if (result == TUTTI_SUCCESS) {
        net_set_port(&best.address, net_port(at));
        *at = best.address;
    }
    return result;
}

tutti_result_t env_meet_fixed(struct env_identity *out, const char *what, const char *address, const char *secret,
                              unsigned generation)
{
    struct net_address at;
    uint8_t nonce[BOOT_NONCE];
    tutti_result_t result = net_parse(what, address, &at);
    if (result == TUTTI_SUCCESS)
        result = later_port(&at, what, address, generation);
    if (result == TUTTI_SUCCESS)
        result = leave_loopback(address, &at);
    if (result == TUTTI_SUCCESS)
        result = make_nonce(secret, generation, nonce);
    if (result != TUTTI_SUCCESS)
        return result;
    out->root_anywhere = !net_is_numeric(address) && !net_is_loopback(&at);
    boot_id_put(&out->id, &at, nonce);
    return TUTTI_SUCCESS;
}

tutti_result_t env_meet_master(struct env_identity *out, const char *secret, unsigned generation, bool *met)
{
    char address[300], job[640];
    const char *host = env_text("MASTER_ADDR");
    int master = 0;
    *met = host != NULL;
    if (!host)
        return TUTTI_SUCCESS;
    tutti_result_t result = env_want("MASTER_PORT", 1, 65535, &master);
    if (result != TUTTI_SUCCESS)
        return result;
    bool v6 = strchr(host, ':') && *host != '[';
    snprintf(job, sizeof job, "%.600s %d", secret, master);
    snprintf(address, sizeof address, v6 ? "[%.250s]:%u" : "%.250s:%u", host, env_port_from(job));
    return env_meet_fixed(out, "MASTER_ADDR", address, job, generation);
}

tutti_result_t env_meet_local(struct env_identity *out, const char *secret, unsigned generation)
{
    char address[32];
    if (out->local_size != out->nranks)
        return error_set(TUTTI_INVALID_USAGE,
                         "%s told rank %d of %d, but not where to meet: set TUTTI_ID to host:port of rank 0, or "
                         "MASTER_ADDR to its host",
                         out->source, out->rank, out->nranks);
    snprintf(address, sizeof address, "127.0.0.1:%u", env_port_from(secret));
    return env_meet_fixed(out, "meeting point", address, secret, generation);
}

tutti_result_t env_fresh_id(struct env_identity *out)
{
    struct net_interface best;
    uint8_t nonce[BOOT_NONCE];
    int count;
    tutti_result_t result = net_interfaces(&best, 1, &count);
    if (result == TUTTI_SUCCESS)
        result = net_reserve(&best.address, &out->reserved_fd);
    if (result == TUTTI_SUCCESS)
        result = random_bytes(nonce, sizeof nonce);
    if (result == TUTTI_SUCCESS)
        boot_id_put(&out->id, &best.address, nonce);
    return result;
}

struct process {
    int pid, parent;
    char name[32];
    unsigned long long start;
};

/* /proc/PID/stat: pid (name) state parent ... start is field 22. The name may hold anything, so look for the last ')'.
 */
static bool process_read(int pid, struct process *out)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t got = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[got] = 0;
    char *open = strchr(line, '('), *close = strrchr(line, ')');
    out->pid = pid;
    if (!open || !close || close < open)
        return false;
    snprintf(out->name, sizeof out->name, "%.*s", (int)(close - open - 1), open + 1);
    return sscanf(close + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                  &out->parent, &out->start) == 2;
}

static bool is_launcher(const char *name)
{
    static const char *const names[] = {"hydra_pmi_proxy", "hydra_bstrap_pr", "slurmstepd", "orted",
                                        "prted",           "mpirun",          "mpiexec"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(names[i], name, 15) == 0)
            return true;
    return false;
}

void env_local_job(char *out, size_t size)
{
    struct process process, parent = {0};
    bool first = true, found = false;
    for (int pid = getppid(); pid > 1 && !found && process_read(pid, &process); pid = process.parent) {
        found = is_launcher(process.name);
        if (first || found)
            parent = process;
        first = false;
    }
    snprintf(out, size, "%d.%llu", parent.pid, parent.start);
}
