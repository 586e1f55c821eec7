/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of an interface that tell of faults: of the network namespace of the process, of the driver (ethtool), of an
 * RDMA adapter, and of TCP. */
#include "evidence/parts.h"

#include "diagnosis/phrase.h"
#include "wire/boxfile.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHOWN        4
#define STRINGS_MOST 8192 /* counters of a driver */
#define PORTS_MOST   8

/* Names differ between drivers, and these parts of them do not. */
bool nic_counts(const char *name)
{
    static const char *const words[] = {"err",   "drop", "discard", "crc",      "fifo",       "collision",   "carrier",
                                        "pause", "xoff", "retrans", "retry",    "rnr",        "timeout",     "sequence",
                                        "ecn",   "cnp",  "symbol",  "link_dow", "congestion", "out_of_buff", "no_buf",
                                        "wait",  "miss", "implied", "abort"};
    char low[64];
    snprintf(low, sizeof low, "%.63s", name);
    for (char *at = low; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(low, words[i]))
            return true;
    return false;
}

static void take(struct nic *nic, const char *prefix, const char *name, uint64_t value)
{
    if (nic->count == NIC_COUNTERS)
        return;
    struct nic_counter *counter = &nic->counters[nic->count++];
    snprintf(counter->name, sizeof counter->name, "%s%.32s", prefix, name);
    evidence_clean(counter->name);
    counter->value = value;
}

/* ---- The namespace of the process ---- */

/* A row: "  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16". */
void nic_take_device(struct nic *nic, const char *text)
{
    static const char *const names[16] = {
        NULL, NULL,        "rx_errors",  "rx_dropped",     "rx_fifo_errors", "rx_frame_errors",  NULL, NULL, NULL,
        NULL, "tx_errors", "tx_dropped", "tx_fifo_errors", "collisions",     "tx_carrier_errors"};
    size_t length = strlen(nic->name);
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *at = line + strspn(line, " ");
        if (!length || strncmp(at, nic->name, length) != 0 || at[length] != ':')
            continue;
        char *end;
        const char *over = line + strcspn(line, "\n");
        at += length + 1;
        for (size_t i = 0; i < 16; i++, at = end) {
            uint64_t value = strtoull(at, &end, 10);
            if (end == at || end > over)
                return;
            if (names[i])
                take(nic, "", names[i], value);
        }
        return;
    }
}

/* The next word of a line; false at its end. */
static bool next_word(const char **at, char *word, size_t size)
{
    *at += strspn(*at, " ");
    size_t length = strcspn(*at, " \n");
    snprintf(word, size, "%.*s", (int)(length < size ? length : size), *at);
    *at += length;
    return length > 0;
}

/* Two lines: the names of the columns, and their values. */
void nic_take_table(struct nic *nic, const char *text, const char *row, const char *const *names)
{
    char name[64], value[64];
    const char *heads = strstr(text, row), *values = heads ? strstr(heads + 1, row) : NULL;
    while (values && next_word(&heads, name, sizeof name) && next_word(&values, value, sizeof value))
        for (size_t i = 0; names[i]; i++)
            if (strcmp(name, names[i]) == 0)
                take(nic, "", name, strtoull(value, NULL, 10));
}

static void read_namespace(struct nic *nic)
{
    static const char *const of_tcp[] = {"RetransSegs", "InErrs", NULL}, *const more[] = {"TCPTimeouts",
                                                                                          "TCPLostRetransmit",
                                                                                          "TCPDeliveredCE", NULL};
    char path[64], *text = calloc(1, 65536);
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/net/dev", nic->pid);
    if (text && boxfile_slurp(path, text, 65536))
        nic_take_device(nic, text);
    bool tcp = strcmp(nic->name, "TCP") == 0;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/net/snmp", nic->pid);
    if (text && tcp && boxfile_slurp(path, text, 65536))
        nic_take_table(nic, text, "Tcp:", of_tcp);
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/net/netstat", nic->pid);
    if (text && tcp && boxfile_slurp(path, text, 65536))
        nic_take_table(nic, text, "TcpExt:", more);
    free(text);
}

static bool same_namespace(uint32_t pid)
{
    char path[64];
    struct stat mine, its;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/ns/net", pid);
    return stat("/proc/self/ns/net", &mine) == 0 && stat(path, &its) == 0 && mine.st_ino == its.st_ino;
}

/* ---- Files of the system ---- */

static void read_folder(struct nic *nic, const char *folder, const char *prefix)
{
    DIR *files = opendir(folder);
    for (struct dirent *entry; files && (entry = readdir(files));) {
        char path[512], text[64];
        if (*entry->d_name == '.' || !nic_counts(entry->d_name))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (boxfile_slurp(path, text, sizeof text))
            take(nic, prefix, entry->d_name, strtoull(text, NULL, 10));
    }
    if (files)
        closedir(files);
}

/* Each port of an adapter; counters of the standard, and those of its driver. */
static void read_adapter(struct nic *nic)
{
    char folder[160], prefix[16];
    for (int port = 1; port <= PORTS_MOST; port++) {
        snprintf(prefix, sizeof prefix, "port %d ", port);
        snprintf(folder, sizeof folder, "/sys/class/infiniband/%s/ports/%d/counters", nic->name, port);
        if (access(folder, R_OK) != 0)
            return;
        read_folder(nic, folder, port > 1 ? prefix : "");
        snprintf(folder, sizeof folder, "/sys/class/infiniband/%s/ports/%d/hw_counters", nic->name, port);
        read_folder(nic, folder, port > 1 ? prefix : "");
    }
}

/* ---- The driver: ethtool -S ---- */

static bool ask(int fd, const char *name, void *data)
{
    struct ifreq request = {0};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%.15s", name);
    request.ifr_data = data;
    return ioctl(fd, SIOCETHTOOL, &request) == 0;
}

static void read_strings(struct nic *nic, int fd, uint32_t count)
{
    struct ethtool_gstrings *names = calloc(1, sizeof *names + (size_t)count * ETH_GSTRING_LEN);
    struct ethtool_stats *values = calloc(1, sizeof *values + (size_t)count * sizeof(uint64_t));
    if (names && values) {
        names->cmd = ETHTOOL_GSTRINGS, names->string_set = ETH_SS_STATS, names->len = count;
        values->cmd = ETHTOOL_GSTATS, values->n_stats = count;
    }
    bool fine = names && values && ask(fd, nic->name, names) && ask(fd, nic->name, values) && names->len == count &&
                values->n_stats == count;
    for (uint32_t i = 0; fine && i < count; i++) {
        char name[ETH_GSTRING_LEN + 1] = "";
        uint64_t value;
        memcpy(name, names->data + (size_t)i * ETH_GSTRING_LEN, ETH_GSTRING_LEN);
        memcpy(&value, values->data + i, sizeof value);
        if (nic_counts(name))
            take(nic, "", name, value);
    }
    free(names);
    free(values);
}

static void read_driver(struct nic *nic)
{
    struct {
        struct ethtool_sset_info head;
        uint32_t count;
    } info = {.head = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ull << ETH_SS_STATS}};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && ask(fd, nic->name, &info) && info.head.sset_mask && info.count && info.count <= STRINGS_MOST)
        read_strings(nic, fd, info.count);
    if (fd >= 0)
        close(fd);
}

void nic_read(struct nic *nic, const char *name, uint32_t pid)
{
    char folder[128];
    *nic = (struct nic){.pid = pid, .here = same_namespace(pid)};
    snprintf(nic->name, sizeof nic->name, "%s", name);
    read_namespace(nic);
    if (!nic->here || strchr(name, '/') || *name == '.' || strcmp(name, "TCP") == 0)
        return;
    snprintf(folder, sizeof folder, "/sys/class/net/%s/statistics", nic->name);
    if (!nic->count)
        read_folder(nic, folder, "");
    read_adapter(nic);
    read_driver(nic);
}

/* ---- What has grown ---- */

static uint64_t value_in(const struct nic *nic, size_t near, const char *name, bool *found)
{
    for (size_t i = 0; i < nic->count; i++) {
        const struct nic_counter *one = &nic->counters[(near + i) % nic->count];
        if ((*found = strcmp(one->name, name) == 0))
            return one->value;
    }
    return 0;
}

/* The counter that has grown most, of those that are not in `told`. SIZE_MAX: none. */
static size_t most_grown(const struct nic *before, const struct nic *now, const bool *told, uint64_t *by)
{
    size_t best = SIZE_MAX;
    *by = 0;
    for (size_t i = 0; i < now->count; i++) {
        bool found;
        uint64_t was = value_in(before, i, now->counters[i].name, &found), is = now->counters[i].value;
        if (told[i] || !found || is <= was || is - was <= *by)
            continue;
        *by = is - was;
        best = i;
    }
    return best;
}

/* " (1000 Mbit/s, up)" of an interface of this namespace; "" of others. */
static void say_state(const struct nic *nic, char *out, size_t size)
{
    char path[96], speed[32] = "", state[32] = "";
    *out = 0;
    if (!nic->here || strchr(nic->name, '/'))
        return;
    snprintf(path, sizeof path, "/sys/class/net/%s/speed", nic->name);
    boxfile_slurp(path, speed, sizeof speed);
    snprintf(path, sizeof path, "/sys/class/net/%s/operstate", nic->name);
    boxfile_slurp(path, state, sizeof state);
    state[strcspn(state, "\n")] = 0;
    evidence_clean(state);
    long rate = strtol(speed, NULL, 10);
    if (rate > 0)
        snprintf(out, size, " (%ld Mbit/s, %s)", rate, state);
    else if (*state)
        snprintf(out, size, " (%s)", state);
}

bool nic_line(const struct nic *before, const struct nic *now, uint64_t ns, char line[EVIDENCE_LINE])
{
    char state[80], name[sizeof now->name];
    bool told[NIC_COUNTERS] = {false};
    size_t used, at;
    uint64_t by;
    if (!now->count || !before->count)
        return false;
    snprintf(name, sizeof name, "%s", now->name);
    evidence_clean(name);
    say_state(now, state, sizeof state);
    used = (size_t)snprintf(line, EVIDENCE_LINE, "%s%s:", name, state);
    int shown = 0;
    while (shown < SHOWN && (at = most_grown(before, now, told, &by)) != SIZE_MAX && used + 80 < EVIDENCE_LINE) {
        told[at] = true;
        used += (size_t)snprintf(line + used, EVIDENCE_LINE - used, "%s %.40s +%" PRIu64, shown++ ? "," : "",
                                 now->counters[at].name, by);
    }
    snprintf(line + used, EVIDENCE_LINE - used, shown ? " in %s" : " no error, drop, pause or retransmission in %s",
             phrase_time(ns).text);
    return true;
}
