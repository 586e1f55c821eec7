/* SPDX-License-Identifier: Apache-2.0 */
/* The boxes that a command looks at, and the ranks in them. */
#include "cli/trace_set.h"

#include "base/clock.h"
#include "base/error.h"
#include "dumps/dumps.h"
#include "wire/boxfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool comm_wanted(const struct blackbox_comm *comm, const char *wanted)
{
    if (!wanted || strcmp(comm->name, wanted) == 0)
        return true;
    char *end;
    errno = 0;
    uint64_t id = strtoull(wanted, &end, 16);
    return *wanted && !*end && !errno && id == comm->id;
}

bool view_filter(struct blackbox *box, const struct view_options *options)
{
    size_t kept = 0;
    for (size_t i = 0; i < box->comm_count; i++) {
        if (comm_wanted(&box->comms[i], options->comm))
            box->comms[kept++] = box->comms[i];
        else
            free(box->comms[i].ops);
    }
    box->comm_count = kept;
    return (!options->pid || box->header.pid == options->pid) && (!options->comm || kept);
}

/* Knows a box by its name, without opening it. */
static bool of_other_pid(const char *path, int64_t pid)
{
    struct boxfile name;
    const char *base = strrchr(path, '/');
    return pid && boxfile_parse(base ? base + 1 : path, &name) && name.pid != pid;
}

bool view_paths(const struct view_options *options, char ***paths, size_t *count)
{
    *paths = options->files;
    *count = (size_t)options->file_count;
    if (!*count && boxfile_list(options->dir, paths, count) != TUTTI_SUCCESS) {
        fprintf(stderr, "tutti %s: %s\n", options->command, error_last());
        return false;
    }
    if (!options->file_count) {
        size_t kept = 0;
        for (size_t i = 0; i < *count; i++) {
            if (of_other_pid((*paths)[i], options->pid))
                free((*paths)[i]);
            else
                (*paths)[kept++] = (*paths)[i];
        }
        *count = kept;
    }
    return true;
}

void view_free_paths(const struct view_options *options, char **paths, size_t count)
{
    if (!options->file_count)
        boxfile_free(paths, count);
}

/* Reads a whole file, and the time of its writing; NULL after error_note. The caller frees it. */
static char *slurp(const char *path, struct dump_file *file)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool fine = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size <= DUMP_MOST;
    char *bytes = fine ? malloc((size_t)info.st_size + 1) : NULL;
    ssize_t got = 1;
    while (bytes && got > 0 && file->size < (size_t)info.st_size)
        if ((got = read(fd, bytes + file->size, (size_t)info.st_size - file->size)) > 0)
            file->size += (size_t)got;
    if (fine)
        file->written = (uint64_t)info.st_mtim.tv_sec * NS_PER_S + (uint64_t)info.st_mtim.tv_nsec;
    if (!bytes)
        error_note(TUTTI_SYSTEM_ERROR, "reading %s: no file that can be read, or longer than %u MiB", path,
                   DUMP_MOST >> 20);
    if (fd >= 0)
        close(fd);
    return bytes;
}

/* A damaged black box, or one of another version, is no dump of another kind. */
static bool has_magic(const char *path)
{
    uint64_t magic = 0;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool has = fd >= 0 && read(fd, &magic, sizeof magic) == sizeof magic &&
               (magic == WIRE_BOX_MAGIC || magic == __builtin_bswap64(WIRE_BOX_MAGIC));
    if (fd >= 0)
        close(fd);
    return has;
}

/* Takes the box. False: no memory. */
static bool keep(struct view_set *set, struct blackbox *box, const struct view_options *options)
{
    if (!view_filter(box, options)) {
        blackbox_free(box);
        return true;
    }
    struct blackbox **more = set->count & (set->count - 1)
                                 ? set->boxes
                                 : realloc(set->boxes, (set->count ? 2 * set->count : 1) * sizeof *more);
    if (!more) {
        blackbox_free(box);
        return false;
    }
    set->boxes = more;
    set->boxes[set->count++] = box;
    return true;
}

/* Adds the boxes of a dump that another library wrote. */
static tutti_result_t read_dump(struct view_set *set, const char *path, const struct view_options *options)
{
    struct blackbox **boxes = NULL;
    size_t count = 0;
    struct dump_file file = {.name = path};
    char *bytes = slurp(path, &file);
    file.bytes = bytes;
    tutti_result_t result = bytes ? dump_read(&file, &boxes, &count) : TUTTI_SYSTEM_ERROR;
    free(bytes);
    for (size_t i = 0; i < count; i++)
        if (!keep(set, boxes[i], options))
            result = error_note(TUTTI_SYSTEM_ERROR, "reading %s: no memory", path);
    free(boxes);
    return result;
}

static bool asks_for_the_dead(const struct view_options *options)
{
    return options->dead || options->pid || options->file_count;
}

/* Reads dead processes only in outline, unless they were asked for, until a living one is seen to have to do with
 * them. */
static tutti_result_t read_box(const char *path, const struct view_options *options, struct blackbox **out)
{
    if (!asks_for_the_dead(options)) {
        tutti_result_t result = blackbox_outline(path, out);
        if (result != TUTTI_SUCCESS || !(*out)->alive)
            return result;
        blackbox_free(*out);
    }
    return blackbox_read(path, out);
}

/* False: the box has gone meanwhile. */
static bool read_whole(struct blackbox **box, const struct view_options *options)
{
    struct blackbox *whole;
    if (!(*box)->outline)
        return true;
    if (blackbox_read((*box)->path, &whole) != TUTTI_SUCCESS)
        return false;
    view_filter(whole, options);
    blackbox_free(*box);
    *box = whole;
    return true;
}

static void add(struct view_set *set, const char *path, bool named, const struct view_options *options)
{
    struct blackbox *box;
    tutti_result_t result = read_box(path, options, &box);
    if (result == TUTTI_SUCCESS && keep(set, box, options))
        return;
    if (result == TUTTI_INVALID_USAGE && options->file_count && !has_magic(path))
        result = read_dump(set, path, options);
    if (result == TUTTI_SUCCESS)
        return;
    set->strange += !named && result == TUTTI_INVALID_USAGE && !has_magic(path);
    if (!named && result == TUTTI_INVALID_USAGE && !has_magic(path))
        return;
    bool there = access(path, F_OK) == 0;
    set->broken += there && options->file_count; /* in the folder it may be in the making */
    set->missing += !there && options->file_count;
    set->unreadable += there;
    bool deserted = !options->file_count && !options->pid && boxfile_deserted(path);
    set->deserted += deserted;
    if (deserted)
        view_put_past(options->past, path, true);
    if (!options->quiet && !deserted)
        fprintf(stderr, "tutti %s: %s\n", options->command, error_last());
}

static bool meet(const struct blackbox *one, const struct blackbox *other)
{
    for (size_t i = 0; i < one->comm_count; i++)
        for (size_t j = 0; j < other->comm_count; j++)
            if (one->comms[i].id == other->comms[j].id)
                return true;
    return false;
}

/* A living process has the number that the user named, and this box is of one that had the number before. */
static bool is_of_earlier(const struct blackbox *dead, const struct view_options *options)
{
    const struct wire_box_header *header = &dead->header;
    uint64_t start = options->pid && !options->dead && !options->file_count ? boxfile_start_time(header->pid) : 0;
    return start && header->pid_namespace == boxfile_pid_namespace() && start != header->start_time;
}

/* Dead processes that share a communicator with a living one tell what it waits for. */
static bool wanted_dead(const struct view_set *set, size_t living, const struct blackbox *dead,
                        const struct view_options *options)
{
    bool wanted = asks_for_the_dead(options) && !is_of_earlier(dead, options);
    for (size_t i = 0; i < living && !wanted; i++)
        wanted = meet(set->boxes[i], dead);
    return wanted;
}

/* Sorts the living first, otherwise in the order that they were found. */
static bool sort_out(struct view_set *set, const struct view_options *options)
{
    struct blackbox **all = set->boxes;
    size_t count = set->count;
    set->boxes = calloc(count + 1, sizeof(struct blackbox *));
    if (!set->boxes) {
        set->boxes = all;
        return false;
    }
    set->count = 0;
    for (size_t i = 0; i < count; i++)
        if (all[i]->alive)
            set->boxes[set->count++] = all[i];
    size_t living = set->count;
    bool sure = set->unreadable == set->deserted; /* else a living process may have to do with any */
    for (size_t i = 0; i < count; i++) {
        if (all[i]->alive)
            continue;
        bool wanted = wanted_dead(set, living, all[i], options);
        if (wanted && read_whole(&all[i], options)) {
            set->boxes[set->count++] = all[i];
            continue;
        }
        set->hidden++;
        view_put_past(sure && !wanted ? options->past : NULL, all[i]->path, false);
        blackbox_free(all[i]);
    }
    free(all);
    return true;
}

bool view_load(const struct view_options *options, struct view_set *set)
{
    char **paths;
    size_t count;
    *set = (struct view_set){0};
    if (!view_paths(options, &paths, &count))
        return false;
    for (size_t i = 0; i < count; i++) {
        bool unreadable = false;
        if (view_is_past(options->past, paths[i], &unreadable)) {
            set->unreadable += unreadable;
            set->deserted += unreadable;
            continue;
        }
        set->read++;
        add(set, paths[i], !options->file_count || i < (size_t)options->named, options);
    }
    view_free_paths(options, paths, count);
    if (options->file_count)
        dump_drop_older(set->boxes, &set->count);
    bool fine = dump_join(set->boxes, set->count) && sort_out(set, options);
    view_end_look(options->past);
    if (!fine) {
        fprintf(stderr, "tutti %s: no memory\n", options->command);
        view_unload(set);
    }
    return fine;
}

void view_unload(struct view_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        blackbox_free(set->boxes[i]);
    free(set->boxes);
    *set = (struct view_set){0};
}

static int by_comm_and_rank(const void *left, const void *right)
{
    const struct blackbox_comm *a = ((const struct trace_member *)left)->comm,
                               *b = ((const struct trace_member *)right)->comm;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return a->rank != b->rank ? (a->rank < b->rank ? -1 : 1) : 0;
}

struct trace_member *view_members(const struct view_set *set, size_t *count)
{
    size_t total = 0;
    *count = 0;
    for (size_t i = 0; i < set->count; i++)
        total += set->boxes[i]->comm_count;
    struct trace_member *members = total ? calloc(total, sizeof *members) : NULL;
    for (size_t i = 0; members && i < set->count; i++)
        for (size_t j = 0; j < set->boxes[i]->comm_count; j++)
            members[(*count)++] = (struct trace_member){set->boxes[i], &set->boxes[i]->comms[j]};
    if (members)
        qsort(members, *count, sizeof *members, by_comm_and_rank);
    return members;
}

size_t view_group(const struct trace_member *members, size_t count, size_t at)
{
    size_t end = at;
    while (end < count && members[end].comm->id == members[at].comm->id)
        end++;
    return end - at;
}
