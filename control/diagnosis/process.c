/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnosis/process.h"
#include "diagnosis/group.h"

#include "base/clock.h"
#include "wire/boxfile.h"

#include <dirent.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_PID_NAMESPACE 0xeffffffcu /* the kernel gives it this inode */

/* Finds the state in /proc/PID/stat: the name may hold anything, also brackets. */
static char state_letter(const char *stat)
{
    const char *after = strrchr(stat, ')');
    return after && after[1] == ' ' ? after[2] : '?';
}

static enum process_state state_of(char letter)
{
    switch (letter) {
    case 'R':
        return PROCESS_RUNS;
    case 'S':
        return PROCESS_SLEEPS;
    case 'D':
        return PROCESS_BLOCKED;
    case 'T':
        return PROCESS_STOPPED;
    case 't':
        return PROCESS_TRACED;
    default:
        return PROCESS_UNKNOWN;
    }
}

/* ---- One process ---- */

static void add_thread(struct process_facts *facts, uint32_t pid, const char *task, size_t *traced)
{
    char path[320], text[1024];
    struct thread_facts thread = {.number = (uint32_t)strtoul(task, NULL, 10)};
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/task/%s/stat", pid, task);
    char state = boxfile_slurp(path, text, sizeof text) ? state_letter(text) : 0;
    thread.ready = state == 'R';
    *traced += state == 't';
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/task/%s/schedstat", pid, task);
    if (facts->thread_count < FACTS_THREADS && boxfile_slurp(path, text, sizeof text) &&
        sscanf(text, "%" SCNu64 " %" SCNu64, &thread.ran, &thread.delayed) == 2)
        facts->threads[facts->thread_count++] = thread;
}

/* Reads the state of all threads: a tracer may hold others than the first. */
static void read_threads(struct process_facts *facts, uint32_t pid)
{
    char path[64];
    size_t traced = 0;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks && (entry = readdir(tasks));)
        if (*entry->d_name != '.')
            add_thread(facts, pid, entry->d_name, &traced);
    if (tasks)
        closedir(tasks);
    if (traced && facts->state != PROCESS_STOPPED)
        facts->state = PROCESS_TRACED;
    facts->at = facts->thread_count ? clock_ns() : 0;
}

static void read_tracer(struct process_facts *facts, uint32_t pid)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/status", pid);
    const char *line = boxfile_slurp(path, text, sizeof text) ? strstr(text, "TracerPid:") : NULL;
    facts->tracer = line ? (uint32_t)strtoul(line + strlen("TracerPid:"), NULL, 10) : 0;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/comm", facts->tracer);
    size_t length = facts->tracer ? boxfile_slurp(path, facts->tracer_name, sizeof facts->tracer_name) : 0;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)facts->tracer_name[i] < 32)
            facts->tracer_name[i] = 0;
}

/* Field 12 of /proc/PID/stat, of all threads. */
static uint64_t major_faults(const char *stat)
{
    const char *at = strrchr(stat, ')');
    for (int field = 2; at && field < 12; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

static void read_moved(struct process_facts *facts, uint32_t pid)
{
    char path[64], text[1024];
    uint64_t in, out;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/io", pid);
    if (boxfile_slurp(path, text, sizeof text) && sscanf(text, "rchar: %" SCNu64 " wchar: %" SCNu64, &in, &out) == 2)
        facts->moved = in + out;
}

/* Names of functions, without addresses, from "[<0>] vfs_read+0x1/0x2" or "futex_wait": at most three. */
static void name_functions(const char *text, char *to, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < 3 && *text; i++) {
        text += *text == '[' ? strcspn(text, " \n") : 0;
        text += *text == ' ';
        size_t length = strcspn(text, "+\n");
        if (length && used + length + 3 < size && strncmp(text, "0", length) != 0)
            used += (size_t)snprintf(to + used, size - used, "%s%.*s", used ? ", " : "", (int)length, text);
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
}

/* Where in the kernel it waits: root may read all, others the innermost function. */
static void read_where(struct process_facts *facts, uint32_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/stack", pid);
    if (!boxfile_slurp(path, text, sizeof text)) {
        snprintf(path, sizeof path, "/proc/%" PRIu32 "/wchan", pid);
        if (!boxfile_slurp(path, text, sizeof text))
            return;
    }
    name_functions(text, facts->detail, sizeof facts->detail);
}

/* The parent in "PID (NAME) STATE PARENT ...", if that is stopped: it may not read what this process prints. */
static uint32_t stopped_parent(const char *stat)
{
    char path[64], text[1024];
    const char *after = strrchr(stat, ')');
    uint32_t parent = after && strlen(after) > 4 ? (uint32_t)strtoul(after + 4, NULL, 10) : 0;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/stat", parent);
    return parent && boxfile_slurp(path, text, sizeof text) && state_letter(text) == 'T' ? parent : 0;
}

static struct process_facts facts_of(uint32_t pid)
{
    struct process_facts facts = {.pid = pid};
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/stat", pid);
    if (!boxfile_slurp(path, text, sizeof text))
        return facts;
    facts.state = state_of(state_letter(text));
    facts.stopped_parent = stopped_parent(text);
    facts.faults = major_faults(text);
    read_threads(&facts, pid);
    read_moved(&facts, pid);
    group_facts(&facts, pid);
    if (facts.frozen)
        facts.state = PROCESS_STOPPED;
    if (facts.state == PROCESS_BLOCKED)
        read_where(&facts, pid);
    if (facts.state == PROCESS_TRACED)
        read_tracer(&facts, pid);
    return facts;
}

/* ---- Processes of other namespaces ---- */

/* The last number of the line NSpid: the number of the process in its own namespace. */
static uint32_t inner_pid(uint32_t pid)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/status", pid);
    char *line = boxfile_slurp(path, text, sizeof text) ? strstr(text, "\nNSpid:") : NULL;
    if (!line)
        return 0;
    line[1 + strcspn(line + 1, "\n")] = 0;
    const char *last = strrchr(line, '\t');
    return last ? (uint32_t)strtoul(last + 1, NULL, 10) : 0;
}

static bool is_in(uint32_t pid, uint64_t pid_namespace)
{
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/ns/pid", pid);
    return stat(path, &info) == 0 && info.st_ino == pid_namespace;
}

/* The number of that process in this namespace; 0: this namespace does not see it. */
static uint32_t outer_pid(const struct wire_box_header *header)
{
    uint32_t found = 0;
    DIR *all = opendir("/proc");
    for (struct dirent *entry; all && !found && (entry = readdir(all));) {
        uint32_t pid = (uint32_t)strtoul(entry->d_name, NULL, 10);
        if (pid && is_in(pid, header->pid_namespace) && inner_pid(pid) == header->pid &&
            boxfile_start_time(pid) == header->start_time)
            found = pid;
    }
    if (all)
        closedir(all);
    return found;
}

uint32_t process_seen_here(const struct blackbox *box)
{
    if (!box->alive)
        return 0;
    return box->header.pid_namespace == boxfile_pid_namespace() ? box->header.pid : outer_pid(&box->header);
}

static bool is_of_this_machine(const struct wire_box_header *header)
{
    uint8_t boot[sizeof header->boot_id];
    boxfile_boot_id(boot);
    return memcmp(boot, header->boot_id, sizeof boot) == 0 && header->pid_namespace == boxfile_pid_namespace();
}

/* Does the process of this box live, without the box? Then it has become another program, or the box is a copy. */
static struct process_facts facts_of_other_program(const struct blackbox *box)
{
    struct process_facts facts = {0};
    char path[64], text[1024];
    uint32_t pid = box->header.pid;
    if (box->dumped || box->header.state != WIRE_BOX_OPEN || !pid || !is_of_this_machine(&box->header) ||
        boxfile_start_time(pid) != box->header.start_time)
        return facts;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/stat", pid);
    char state = boxfile_slurp(path, text, sizeof text) ? state_letter(text) : 'Z';
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/comm", pid);
    facts.replaced = state != 'Z' && state != 'X' && boxfile_slurp(path, facts.detail, sizeof facts.detail);
    facts.detail[strcspn(facts.detail, "\n")] = 0;
    for (char *at = facts.detail; *at; at++)
        *at = (unsigned char)*at < 32 || *at == 127 ? '?' : *at;
    return facts;
}

/* ---- Processes that were killed for memory ---- */

#define KILLS       64
#define LOG_LATE_NS (2 * NS_PER_S) /* by which the log's clock may be late */

struct kills {
    struct group_kill items[KILLS];
    size_t count;
    bool read;
};

/* The log knows processes by their numbers in the first namespace alone. */
static void find_kill(struct process_facts *facts, const struct blackbox *box, struct kills *kills)
{
    long rate = sysconf(_SC_CLK_TCK);
    if (box->dumped || box->header.state != WIRE_BOX_OPEN || facts->replaced || rate <= 0 ||
        box->header.pid_namespace != FIRST_PID_NAMESPACE || !is_of_this_machine(&box->header))
        return;
    if (!kills->read)
        kills->count = group_kills(kills->items, KILLS);
    kills->read = true;
    double begun = (double)box->header.start_time / (double)rate;
    for (size_t i = 0; i < kills->count; i++)
        if (kills->items[i].pid == box->header.pid && (double)(kills->items[i].at + LOG_LATE_NS) / 1e9 > begun) {
            facts->out_of_memory = true;
            memcpy(facts->group, kills->items[i].group, sizeof facts->group);
        }
}

struct process_facts *process_facts_read(struct blackbox *const *boxes, size_t count)
{
    struct process_facts *facts = calloc(count + 1, sizeof *facts);
    struct kills kills = {.read = false};
    for (size_t i = 0; facts && i < count; i++) {
        uint32_t pid = process_seen_here(boxes[i]);
        if (pid)
            facts[i] = facts_of(pid);
        else if (!boxes[i]->alive) {
            facts[i] = facts_of_other_program(boxes[i]);
            find_kill(&facts[i], boxes[i], &kills);
        }
    }
    return facts;
}

/* ---- Between two looks ---- */

#define WATCH_NS   (50 * NS_PER_MS)
#define WATCH_PART 10 /* of the time goes into watching, at most */

static void watch_state(struct process_facts *facts)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/stat", facts->pid);
    if (!facts->pid || !boxfile_slurp(path, text, sizeof text))
        return;
    facts->watched++;
    facts->blocked += state_of(state_letter(text)) == PROCESS_BLOCKED;
}

void process_facts_watch(struct process_facts *facts, size_t count, uint64_t ns)
{
    uint64_t until = clock_ns() + ns, begun, took = 0;
    while ((begun = clock_ns()) < until) {
        uint64_t pause = took * WATCH_PART > WATCH_NS ? took * WATCH_PART : WATCH_NS;
        pause = pause < until - begun ? pause : until - begun;
        poll(NULL, 0, (int)((pause + NS_PER_MS - 1) / NS_PER_MS));
        begun = clock_ns();
        for (size_t i = 0; facts && i < count; i++)
            watch_state(&facts[i]);
        took = clock_ns() - begun;
    }
}
