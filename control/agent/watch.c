/* SPDX-License-Identifier: Apache-2.0 */
/* The black boxes in a folder: which ones count, what has changed in them, and whether something happens now. */
#include "agent/agent.h"

#include "base/clock.h"
#include "base/error.h"
#include "days/days.h"
#include "diagnosis/process.h"
#include "wire/boxfile.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* looks at a box that cannot be read: it may be in the making */
#define TRIES       5
#define DEAD_NS     (600 * NS_PER_S) /* a process that died is reported for this time */
#define CALLS_ALL   65536u           /* finished calls that are reported */
#define CALLS_LEAST 4u

/* NEW: not reported so far. OVER: does not count, as a box of an earlier job or one that cannot be read. */
enum life { NEW, LIVES, DIED, OVER };

struct watch_entry {
    char *path;
    int fd; /* -1: closed */
    enum life life;
    bool listed, told, broken;
    int tries;
    uint64_t print;  /* of what was reported */
    uint64_t report; /* the number of the latest event that was reported */
    uint64_t died;   /* when that was seen */
    uint32_t number;
    struct wire_box_header header; /* as of the last read */
    uint64_t now;
    uint64_t next_event;
};

struct agent_watch {
    char *dir;
    struct report head;
    struct watch_entry *entries; /* sorted by path */
    size_t count, told;
    uint64_t *comms; /* ids of the living processes' communicators */
    size_t comm_count, comm_room, comms_before;
    bool lanes;        /* in this report */
    struct days *days; /* NULL: nothing is noted */
};

struct agent_watch *watch_open(const char *dir, const char *host)
{
    struct agent_watch *watch = calloc(1, sizeof *watch);
    char *copy = strdup(dir);
    if (!watch || !copy) {
        free(watch);
        free(copy);
        return NULL;
    }
    watch->dir = copy;
    snprintf(watch->head.host, sizeof watch->head.host, "%s", host);
    if (getrandom(&watch->head.agent, sizeof watch->head.agent, 0) != sizeof watch->head.agent)
        watch->head.agent = clock_ns() ^ (uint64_t)getpid() << 48;
    return watch;
}

static void shut(struct watch_entry *entry)
{
    if (entry->fd >= 0)
        close(entry->fd);
    entry->fd = -1;
}

static void forget(struct watch_entry *entry)
{
    shut(entry);
    free(entry->path);
}

void watch_close(struct agent_watch *watch)
{
    for (size_t i = 0; watch && i < watch->count; i++)
        forget(&watch->entries[i]);
    if (watch) {
        free(watch->entries);
        free(watch->comms);
        free(watch->dir);
    }
    free(watch);
}

void watch_keep_days(struct agent_watch *watch, struct days *days)
{
    watch->days = days;
}

size_t watch_count(const struct agent_watch *watch)
{
    return watch->told;
}

uint64_t watch_agent(const struct agent_watch *watch)
{
    return watch->head.agent;
}

/* ---- The folder ---- */

static int by_path(const void *left, const void *right)
{
    return strverscmp(((const struct watch_entry *)left)->path, ((const struct watch_entry *)right)->path);
}

static void drop_gone(struct agent_watch *watch)
{
    size_t kept = 0;
    for (size_t i = 0; i < watch->count; i++) {
        if (watch->entries[i].listed)
            watch->entries[kept++] = watch->entries[i];
        else
            forget(&watch->entries[i]);
    }
    watch->count = kept;
}

static bool append(struct agent_watch *watch, char *path)
{
    struct boxfile name;
    const char *base = strrchr(path, '/');
    size_t count = watch->count;
    struct watch_entry *more =
        count & (count - 1) ? watch->entries : realloc(watch->entries, (count ? 2 * count : 1) * sizeof *more);
    if (!more)
        return false;
    watch->entries = more;
    more[watch->count++] = (struct watch_entry){.path = path, .fd = -1, .listed = true};
    if (boxfile_parse(base ? base + 1 : path, &name))
        more[count].number = name.number;
    return true;
}

/* Brings the entries up to date with the folder. */
static bool list(struct agent_watch *watch)
{
    char **paths;
    size_t count, known = watch->count, added = 0;
    if (boxfile_list(watch->dir, &paths, &count) != TUTTI_SUCCESS)
        return false;
    for (size_t i = 0; i < known; i++)
        watch->entries[i].listed = false;
    bool fine = true;
    for (size_t i = 0; i < count; i++) {
        const struct watch_entry key = {.path = paths[i]};
        struct watch_entry *entry = known ? bsearch(&key, watch->entries, known, sizeof key, by_path) : NULL;
        if (entry)
            entry->listed = true;
        else if (fine && (fine = append(watch, paths[i])))
            paths[i] = NULL, added++;
    }
    boxfile_free(paths, count);
    drop_gone(watch);
    if (added)
        qsort(watch->entries, watch->count, sizeof *watch->entries, by_path);
    return fine || (error_note(TUTTI_SYSTEM_ERROR, "looking for black boxes in %s: no memory", watch->dir), false);
}

/* ---- What has changed ---- */

static void mix(uint64_t *print, uint64_t value)
{
    *print = (*print ^ value) * 0x100000001b3ull;
    *print ^= *print >> 29;
}

/* Leaves out times, which differ a little each time they are read. */
static uint64_t print_of(const struct blackbox *box)
{
    uint64_t print = 0xcbf29ce484222325ull;
    mix(&print, box->alive);
    mix(&print, box->header.state);
    mix(&print, box->expected_since);
    mix(&print, box->expected_until);
    mix(&print, box->counters[WIRE_COUNTER_COMMS_UNRECORDED]);
    mix(&print, box->counters[WIRE_COUNTER_LANES_UNRECORDED]);
    mix(&print, box->event_count ? box->events[box->event_count - 1].number : UINT64_MAX);
    for (size_t i = 0; i < box->comm_count; i++) {
        const struct blackbox_comm *comm = &box->comms[i];
        mix(&print, comm->id);
        mix(&print, comm->generation);
        mix(&print, comm->state);
        mix(&print, comm->unrecorded);
        for (size_t j = 0; j < comm->op_count; j++) {
            const struct blackbox_op *op = &comm->ops[j];
            mix(&print, op->position << 2 | op->state);
            mix(&print,
                (uint64_t)op->wait_round << 32 ^ (uint64_t)op->wait_slice << 16 ^ (uint64_t)(uint32_t)op->wait_peer);
        }
    }
    return print;
}

static bool note_comms(struct agent_watch *watch, const struct blackbox *box)
{
    size_t need = watch->comm_count + box->comm_count;
    if (need > watch->comm_room) {
        uint64_t *more = realloc(watch->comms, 2 * need * sizeof *more);
        if (!more)
            return false;
        watch->comms = more;
        watch->comm_room = 2 * need;
    }
    for (size_t i = 0; i < box->comm_count; i++)
        watch->comms[watch->comm_count++] = box->comms[i].id;
    return true;
}

static bool meets_living(const struct agent_watch *watch, const struct blackbox *box)
{
    for (size_t i = 0; i < box->comm_count; i++)
        for (size_t j = 0; j < watch->comm_count; j++)
            if (box->comms[i].id == watch->comms[j])
                return true;
    return false;
}

/* ---- One box ---- */

static struct blackbox *read_box(struct agent_watch *watch, struct watch_entry *entry)
{
    struct blackbox *box = NULL;
    if (entry->fd < 0)
        entry->fd = open(entry->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    tutti_result_t result = entry->fd < 0 ? error_note(TUTTI_SYSTEM_ERROR, "opening the black box %s: %m", entry->path)
                                          : blackbox_read_fd(entry->fd, entry->path, &box);
    if (result == TUTTI_SUCCESS)
        return box;
    if (++entry->tries == TRIES) {
        fprintf(stderr, "tutti agent: %s\n", error_last());
        entry->broken = true;
        entry->life = OVER;
        shut(entry);
    }
    return NULL;
}

static void tell(struct agent_watch *watch, struct report_writer *writer, struct watch_entry *entry,
                 struct blackbox *box, bool whole)
{
    size_t each = CALLS_ALL / (watch->comms_before + 1);
    size_t calls = each > REPORT_CALLS ? REPORT_CALLS : each < CALLS_LEAST ? CALLS_LEAST : each;
    uint64_t print = print_of(box);
    struct process_facts *facts = process_facts_read(&box, 1);
    struct report_process process = {.box = box, .box_number = entry->number, .lanes = watch->lanes};
    process.as_before = !whole && !watch->lanes && entry->told && print == entry->print;
    if (facts)
        process.facts = *facts;
    free(facts);
    entry->told = report_add(writer, &process, calls);
    entry->print = print;
    entry->report = watch->head.number;
    watch->told += entry->told;
}

static void remember(struct watch_entry *entry, const struct blackbox *box)
{
    entry->header = box->header;
    entry->now = box->now;
    entry->next_event = box->event_count ? box->events[box->event_count - 1].number + 1 : 0;
    if (box->alive)
        return;
    entry->died = entry->died ? entry->died : clock_ns();
    shut(entry); /* the box does not change any more */
}

/* Reads a box of a living process, of one that has died since the last look, or one that was never looked at. */
static void look_at(struct agent_watch *watch, struct report_writer *writer, struct watch_entry *entry, bool whole)
{
    struct blackbox *box = read_box(watch, entry);
    if (!box)
        return;
    remember(entry, box);
    if (box->alive && watch->days)
        days_note(watch->days, box, watch->head.host, watch->head.realtime);
    if (box->alive)
        entry->life = note_comms(watch, box) ? LIVES : entry->life;
    else
        entry->life = entry->life == LIVES || entry->told || meets_living(watch, box) ? DIED : OVER;
    if (entry->life != OVER)
        tell(watch, writer, entry, box, whole);
    blackbox_free(box);
}

/* A dead process's box stays as it is: it is read again only for a master that wants everything. */
static void tell_dead(struct agent_watch *watch, struct report_writer *writer, struct watch_entry *entry, bool whole)
{
    if (clock_ns() > entry->died + DEAD_NS)
        entry->life = OVER;
    else if (whole || !entry->told)
        look_at(watch, writer, entry, true);
    else {
        struct blackbox box = {.header = entry->header, .now = entry->now};
        struct report_process process = {.box = &box, .box_number = entry->number, .as_before = true};
        entry->told = report_add(writer, &process, 0);
        watch->told += entry->told;
    }
}

static bool seems_alive(struct watch_entry *entry)
{
    if (entry->fd < 0)
        entry->fd = open(entry->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool marked = entry->fd >= 0 && boxfile_marked(entry->fd);
    if (!marked)
        shut(entry); /* there may be more dead boxes than descriptors */
    return marked;
}

/* Looks at the living first: they tell which of the dead boxes count that were never looked at. */
static void look_at_all(struct agent_watch *watch, struct report_writer *writer, bool whole)
{
    for (int living = 1; living >= 0; living--)
        for (size_t i = 0; i < watch->count; i++) {
            struct watch_entry *entry = &watch->entries[i];
            bool is_living = entry->life == LIVES || (entry->life == NEW && seems_alive(entry));
            if (entry->listed && (living ? is_living : entry->life == NEW))
                look_at(watch, writer, entry, whole);
        }
}

uint8_t *watch_report(struct agent_watch *watch, bool whole, bool lanes, size_t *size)
{
    struct timespec now;
    if (!list(watch))
        return NULL;
    clock_gettime(CLOCK_REALTIME, &now);
    watch->head.alarm = watch_is_alarmed(watch);
    watch->head.has_lanes = true;
    watch->head.number++;
    watch->lanes = lanes;
    watch->head.realtime = (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
    watch->comms_before = watch->comm_count;
    watch->comm_count = watch->told = 0;
    struct report_writer *writer = report_begin(&watch->head);
    if (writer)
        look_at_all(watch, writer, whole);
    for (size_t i = 0; writer && i < watch->count; i++) {
        if (watch->entries[i].life == DIED && watch->entries[i].report != watch->head.number)
            tell_dead(watch, writer, &watch->entries[i], whole);
        if (watch->entries[i].broken)
            report_count_unreadable(writer);
    }
    uint8_t *bytes = writer ? report_end(writer, size) : NULL;
    if (!bytes)
        error_note(TUTTI_SYSTEM_ERROR, "writing a report: no memory");
    return bytes;
}

/* ---- Between reports ---- */

static bool is_grave(uint32_t kind)
{
    return kind == WIRE_EVENT_COMM_FAILED || kind == WIRE_EVENT_COMM_ABORT || kind == WIRE_EVENT_LINK_LOST ||
           kind == WIRE_EVENT_TIMEOUT;
}

/* Events have numbers that tell their places, so the next one is looked for where it will be. */
static bool has_grave_event(struct watch_entry *entry)
{
    const struct wire_box_section *events = &entry->header.events;
    struct wire_box_event event;
    for (uint32_t i = 0; i < events->count; i++, entry->next_event++) {
        uint64_t at = events->offset + (entry->next_event & (events->count - 1)) * events->bytes;
        if (pread(entry->fd, &event, sizeof event, (off_t)at) != (ssize_t)sizeof event ||
            event.stamp != entry->next_event + 1)
            return false;
        if (is_grave(event.kind))
            return true;
    }
    return false;
}

bool watch_is_alarmed(struct agent_watch *watch)
{
    for (size_t i = 0; i < watch->count; i++) {
        struct watch_entry *entry = &watch->entries[i];
        if (entry->life == LIVES && ((entry->header.marked && !boxfile_marked(entry->fd)) || has_grave_event(entry)))
            return true;
    }
    return false;
}
