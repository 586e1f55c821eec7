/* SPDX-License-Identifier: Apache-2.0 */
/* tutti trace --follow: looks again and again, prints what is new, and on a terminal a table of what runs. */
#include "cli/trace.h"
#include "cli/trace_set.h"
#include "cli/trace_text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAUSE_MS 200
#define HISTORY  5 /* operations of each communicator that are printed at the start */

/* The part of one communicator's life in a box that has been printed. */
struct trace_follow_progress {
    unsigned place;
    uint64_t generation, next;
};

/* A box that is held open: its last words can be read after its process has removed it. */
struct watched {
    char *path;
    int fd;
    struct trace_follow_progress *lives;
    size_t count;
    uint64_t next_event;
    ino_t inode; /* a box of the same name may follow */
    bool over;
};

struct follow {
    const struct view_options *options;
    struct watched *watched;
    size_t count;
    bool first; /* this look is the first: history is cut short */
    bool terminal;
    int drawn; /* lines of the table on the screen */
    bool met;  /* some process lives */
};

static bool known(const struct follow *follow, const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return true; /* gone already */
    for (size_t i = 0; i < follow->count; i++)
        if (follow->watched[i].inode == info.st_ino && strcmp(follow->watched[i].path, path) == 0)
            return true;
    return false;
}

/* Starts to watch a box. What cannot be opened is tried again at the next look. */
static void watch(struct follow *follow, const char *path)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct watched *more =
        fd < 0 || fstat(fd, &info) != 0 ? NULL : realloc(follow->watched, (follow->count + 1) * sizeof *more);
    char *copy = more ? strdup(path) : NULL;
    if (more)
        follow->watched = more;
    if (copy)
        more[follow->count++] = (struct watched){.path = copy, .fd = fd, .inode = info.st_ino};
    else if (fd >= 0)
        close(fd);
}

static void find_new(struct follow *follow)
{
    char **paths;
    size_t count;
    if (!view_paths(follow->options, &paths, &count))
        return;
    for (size_t i = 0; i < count; i++)
        if (!known(follow, paths[i]))
            watch(follow, paths[i]);
    view_free_paths(follow->options, paths, count);
}

/* Only the last few are news at the first look. */
static uint64_t first_op(const struct follow *follow, const struct blackbox_comm *comm)
{
    if (!follow->first || comm->op_count <= HISTORY)
        return 0;
    return comm->ops[comm->op_count - HISTORY].position;
}

static struct trace_follow_progress *find_life(struct follow *follow, struct watched *watched,
                                               const struct blackbox_comm *comm)
{
    for (size_t i = 0; i < watched->count; i++)
        if (watched->lives[i].place == comm->place && watched->lives[i].generation == comm->generation)
            return &watched->lives[i];
    struct trace_follow_progress *more = realloc(watched->lives, (watched->count + 1) * sizeof *more);
    if (!more)
        return NULL;
    watched->lives = more;
    more[watched->count] = (struct trace_follow_progress){comm->place, comm->generation, first_op(follow, comm)};
    return &more[watched->count++];
}

/* Takes the table off the screen before lines are printed above it. */
static void erase(struct follow *follow)
{
    if (follow->drawn)
        printf("\033[%dA\033[J", follow->drawn);
    follow->drawn = 0;
}

static void print_op(const struct blackbox *box, const struct blackbox_comm *comm, const struct blackbox_op *op)
{
    char root[24] = "";
    if (op->root >= 0)
        snprintf(root, sizeof root, " root %d", op->root);
    printf("%s pid %u %s %d/%d %s %" PRIu64 " %s %s%s %s %s", view_day(box, op->end ? op->end : op->begin).text,
           box->header.pid, comm->name, comm->rank, comm->nranks, phrase_call(op).text, op->count,
           blackbox_type_name(op->type), blackbox_op_name(op->op), root, *op->algorithm ? op->algorithm : "-",
           phrase_state(op));
    if (op->gpu_end)
        printf(" %s", phrase_time(view_duration(op, 0)).text);
    else if (op->end && op->device)
        printf(" <%s", phrase_time(view_duration(op, 0)).text);
    else if (op->end)
        printf(" %s %.2f GB/s", phrase_time(view_duration(op, 0)).text, view_busbw(op, comm->nranks));
    putchar('\n');
}

/* Prints done operations up to the first that is not; says how many the ring has lost meanwhile. */
static void follow_comm(struct follow *follow, struct watched *watched, const struct blackbox *box,
                        const struct blackbox_comm *comm)
{
    struct trace_follow_progress *progress = find_life(follow, watched, comm);
    for (size_t i = 0; progress && i < comm->op_count; i++) {
        const struct blackbox_op *op = &comm->ops[i];
        if (op->position < progress->next)
            continue;
        if (op->state != WIRE_OP_DONE && box->alive)
            return;
        erase(follow);
        if (op->position > progress->next && i == 0)
            printf("... %" PRIu64 " operations of pid %u %s went by unseen\n", op->position - progress->next,
                   box->header.pid, comm->name);
        print_op(box, comm, op);
        progress->next = op->position + 1;
    }
}

static void follow_events(struct follow *follow, struct watched *watched, const struct blackbox *box)
{
    for (size_t i = follow->first && box->event_count > HISTORY ? box->event_count - HISTORY : 0; i < box->event_count;
         i++) {
        if (box->events[i].number < watched->next_event)
            continue;
        erase(follow);
        view_event_line(stdout, box, &box->events[i]);
        watched->next_event = box->events[i].number + 1;
    }
}

static void end_watch(struct follow *follow, struct watched *watched, const struct blackbox *box)
{
    if (box && !(follow->first && !box->alive)) {
        erase(follow);
        printf("%s pid %u %s\n", view_day(box, box->now).text, box->header.pid,
               box->header.state == WIRE_BOX_CLOSED ? "has ended" : "is dead");
    }
    close(watched->fd);
    watched->fd = -1;
    watched->over = true;
}

/* Prints the news of one box and ends its watch when its process is gone. NULL: nothing of it is running. */
static struct blackbox *look_at(struct follow *follow, struct watched *watched)
{
    struct blackbox *box;
    if (watched->over || blackbox_read_fd(watched->fd, watched->path, &box) != TUTTI_SUCCESS)
        return NULL;
    bool wanted = view_filter(box, follow->options);
    if (wanted && (box->alive || !follow->first)) {
        follow_events(follow, watched, box);
        for (size_t j = 0; j < box->comm_count; j++)
            follow_comm(follow, watched, box, &box->comms[j]);
    }
    follow->met = follow->met || (wanted && box->alive);
    if (box->alive && wanted)
        return box;
    if (!box->alive)
        end_watch(follow, watched, wanted ? box : NULL);
    blackbox_free(box);
    return NULL;
}

/* Puts what matters most first: a window may be narrow. */
static void print_running(FILE *out, const struct blackbox *box, const struct blackbox_comm *comm,
                          const struct blackbox_op *op)
{
    char wait[96] = "runs";
    uint64_t since = op->wait_since && op->wait_since < box->now ? box->now - op->wait_since : 0;
    if (op->wait_since && op->wait_peer >= 0)
        snprintf(wait, sizeof wait, "waits for rank %d, %s", op->wait_peer, phrase_time(since).text);
    else if (op->wait_since)
        snprintf(wait, sizeof wait, "waits for no peer, %s", phrase_time(since).text);
    fprintf(out, "%7u rank %-4d %-28s %s of %s", box->header.pid, comm->rank, wait, phrase_call(op).text,
            phrase_name(comm));
    if (op->wait_since && op->rounds)
        fprintf(out, ", round %" PRIu32 "/%" PRIu32, op->wait_round + 1, op->rounds);
    fprintf(out, ", %" PRIu64 " %s, %s\n", op->count, blackbox_type_name(op->type),
            *op->algorithm ? op->algorithm : "-");
}

/* One line for each running operation, as text that ends with a newline each. The caller frees it. */
static char *running_text(const struct view_set *set)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    for (size_t i = 0; out && i < set->count; i++)
        for (size_t j = 0; j < set->boxes[i]->comm_count; j++) {
            const struct blackbox_op *op = blackbox_current(&set->boxes[i]->comms[j]);
            if (op && op->state == WIRE_OP_RUNNING)
                print_running(out, set->boxes[i], &set->boxes[i]->comms[j], op);
        }
    if (out)
        fclose(out);
    return text;
}

/* Draws the table below all that was printed, cut to the window, so that it can be erased again. */
static void draw(struct follow *follow, const struct view_set *set)
{
    struct winsize window = {.ws_row = 24, .ws_col = 80};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || !window.ws_col)
        window = (struct winsize){.ws_row = 24, .ws_col = 80};
    char *text = running_text(set);
    erase(follow);
    for (char *line = text; line && *line && follow->drawn + 2 < window.ws_row; follow->drawn++) {
        size_t length = strcspn(line, "\n");
        printf("\033[7m%.*s\033[0m\n", (int)(length < window.ws_col ? length : window.ws_col), line);
        line += length + (line[length] == '\n');
    }
    free(text);
}

/* One look. False when no living process is left. */
static bool look(struct follow *follow)
{
    find_new(follow);
    struct view_set alive = {calloc(follow->count + 1, sizeof(struct blackbox *)), 0};
    for (size_t i = 0; alive.boxes && i < follow->count; i++) {
        struct blackbox *box = look_at(follow, &follow->watched[i]);
        if (box)
            alive.boxes[alive.count++] = box;
    }
    if (follow->terminal)
        draw(follow, &alive);
    fflush(stdout);
    bool more = alive.count > 0;
    view_unload(&alive);
    follow->first = false;
    return more;
}

static void release(struct follow *follow)
{
    for (size_t i = 0; i < follow->count; i++) {
        if (follow->watched[i].fd >= 0)
            close(follow->watched[i].fd);
        free(follow->watched[i].lives);
        free(follow->watched[i].path);
    }
    free(follow->watched);
}

int view_follow(const struct view_options *options)
{
    struct follow follow = {.options = options, .first = true, .terminal = isatty(STDOUT_FILENO)};
    while (look(&follow) && !ferror(stdout))
        poll(NULL, 0, PAUSE_MS);
    erase(&follow);
    if (!follow.met)
        fprintf(stderr, "tutti trace: no living process to follow\n");
    release(&follow);
    return follow.met ? VIEW_SHOWN : VIEW_NOTHING;
}
