/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot of a black box: the header's check, its clock, its counters and events. Communicators: boxcomm.c. Lanes:
 * boxlane.c. */
#include "wire/boxread.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/ticks.h"
#include "wire/boxfile.h"
#include "wire/boxsource.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILE   (64ull << 20)
#define MAX_COMMS  4096u
#define MAX_RING   65536u
#define MAX_LANES  65536u
#define MAX_RECORD (1u << 20)

bool box_source_read(const struct box_source *source, uint64_t offset, void *to, size_t length)
{
    if (offset > source->size || length > source->size - offset)
        return false;
    if (source->fd < 0) {
        memcpy(to, source->bytes + offset, length);
        return true;
    }
    for (size_t done = 0; done < length;) {
        ssize_t got = pread(source->fd, (char *)to + done, length - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

#if defined(__SANITIZE_THREAD__)
void box_source_barrier(void)
{
}
#else
void box_source_barrier(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}
#endif

void box_copy_text(char *to, size_t to_size, const char *from, size_t from_size)
{
    size_t length = strnlen(from, from_size < to_size - 1 ? from_size : to_size - 1);
    for (size_t i = 0; i < length; i++)
        to[i] = (unsigned char)from[i] < 32 || from[i] == 127 ? '?' : from[i];
    memset(to + length, 0, to_size - length);
}

uint64_t box_rate_ns(const struct box_rate *rate, uint64_t ticks)
{
    if (ticks == 0 || rate->ns_per_tick <= 0)
        return 0;
    double ns = (double)rate->mono + (double)(int64_t)(ticks - rate->base) * rate->ns_per_tick;
    if (!(ns >= 1))
        return 1;
    if (ns > 9e18)
        return (uint64_t)9e18;
    return rate->mono + (uint64_t)(int64_t)((double)(int64_t)(ticks - rate->base) * rate->ns_per_tick);
}

/* ---- Header ---- */

static bool section_fits(const struct wire_box_section *section, uint64_t least, uint32_t most, uint64_t space)
{
    return section->offset % 8 == 0 && section->bytes % 8 == 0 && section->bytes >= least &&
           section->bytes <= MAX_RECORD * 16 && section->count <= most && section->offset <= space &&
           (uint64_t)section->bytes * section->count <= space - section->offset;
}

static bool power_of_2(uint32_t value)
{
    return value && (value & (value - 1)) == 0;
}

/* What does not fit, or NULL. */
static const char *misfit(const struct wire_box_header *header, uint64_t size)
{
    if (header->file_bytes > size || header->file_bytes > MAX_FILE)
        return "the size in its header is not that of the file";
    if (header->header_bytes < sizeof *header || header->header_bytes > header->file_bytes)
        return "its header is too short";
    if (!section_fits(&header->events, sizeof(struct wire_box_event), MAX_RING, header->file_bytes) ||
        !power_of_2(header->events.count))
        return "its events do not fit";
    if (!section_fits(&header->counters, sizeof(uint64_t), 4096, header->file_bytes))
        return "its counters do not fit";
    if (!section_fits(&header->comms, sizeof(struct wire_box_comm), MAX_COMMS, header->file_bytes))
        return "its communicators do not fit";
    if (!section_fits(&header->ops, sizeof(struct wire_box_op), MAX_RING, header->comms.bytes) ||
        !power_of_2(header->ops.count) || header->ops.offset < sizeof(struct wire_box_comm))
        return "its operations do not fit";
    if (!section_fits(&header->lanes, WIRE_BOX_LANE_LEAST, MAX_LANES, header->file_bytes))
        return "its lanes do not fit";
    if (!section_fits(&header->segments, sizeof(struct wire_box_segment), MAX_RING, header->lanes.bytes) ||
        !power_of_2(header->segments.count) || header->segments.offset < WIRE_BOX_LANE_LEAST)
        return "its segments do not fit";
    return NULL;
}

static tutti_result_t read_header(struct blackbox *box, const struct box_source *source, const char *path)
{
    struct wire_box_header *header = &box->header;
    if (!box_source_read(source, 0, header, sizeof *header))
        return error_note(TUTTI_INVALID_USAGE, "reading the black box %s: too short", path);
    if (header->magic == __builtin_bswap64(WIRE_BOX_MAGIC))
        return error_note(TUTTI_INVALID_USAGE,
                          "reading the black box %s: written in the other byte order; read it there", path);
    if (header->magic != WIRE_BOX_MAGIC)
        return error_note(TUTTI_INVALID_USAGE, "reading the black box %s: it is none, or not ready", path);
    if (header->version != WIRE_BOX_VERSION)
        return error_note(TUTTI_INVALID_USAGE,
                          "reading the black box %s: version %u, want %u; use the tutti that wrote it", path,
                          header->version, WIRE_BOX_VERSION);
    const char *why = misfit(header, source->size);
    if (why)
        return error_note(TUTTI_INVALID_USAGE, "reading the black box %s: damaged: %s", path, why);
    box_copy_text(header->host, sizeof header->host, header->host, sizeof header->host);
    box_copy_text(header->command, sizeof header->command, header->command, sizeof header->command);
    box_copy_text(header->library, sizeof header->library, header->library, sizeof header->library);
    return TUTTI_SUCCESS;
}

/* ---- Clock ---- */

static bool same_boot(const struct wire_box_header *header)
{
    uint8_t here[16], none[16] = {0};
    boxfile_boot_id(here);
    return memcmp(here, none, 16) != 0 && memcmp(here, header->boot_id, 16) == 0;
}

static struct box_rate rate_between(const struct wire_box_clock *from, const struct wire_box_clock *to)
{
    struct box_rate rate = {from->ticks, from->monotonic_ns, 0};
    if (to->ticks > from->ticks && to->monotonic_ns > from->monotonic_ns)
        rate.ns_per_tick = (double)(to->monotonic_ns - from->monotonic_ns) / (double)(to->ticks - from->ticks);
    if (rate.ns_per_tick < 0.01 || rate.ns_per_tick > 1e3 || from->monotonic_ns > INT64_MAX / 2)
        rate.ns_per_tick = 0;
    return rate;
}

/* On the boot that wrote the box, this processor's own counter gives the best rate: most time lies between. */
static struct box_rate find_rate(const struct wire_box_header *header, bool here)
{
    if (header->clock_kind == WIRE_CLOCK_NS)
        return (struct box_rate){header->opened.ticks, header->opened.monotonic_ns, 1};
    if (here && header->clock_kind == TICKS_KIND) {
        struct wire_box_clock now = {0};
        ticks_pair(&now.ticks, &now.monotonic_ns);
        struct box_rate rate = rate_between(&header->opened, &now);
        if (rate.ns_per_tick > 0)
            return rate;
    }
    return rate_between(&header->opened, &header->latest);
}

/* Not from the latest pair while it may be half written. */
static void find_offset(struct blackbox *box)
{
    const struct wire_box_clock *at =
        box->alive || !box->header.latest.monotonic_ns ? &box->header.opened : &box->header.latest;
    box->realtime_offset = (int64_t)(at->realtime_ns - at->monotonic_ns);
}

static void later(uint64_t *latest, uint64_t time)
{
    if (time > *latest)
        *latest = time;
}

/* The last sign of life in the box. */
static uint64_t last_sign(const struct blackbox *box)
{
    uint64_t last = box->header.latest.monotonic_ns;
    for (size_t i = 0; i < box->event_count; i++)
        later(&last, box->events[i].time);
    for (size_t i = 0; i < box->comm_count; i++) {
        const struct blackbox_comm *comm = &box->comms[i];
        later(&last, comm->closed);
        for (size_t j = 0; j < comm->op_count; j++) {
            later(&last, comm->ops[j].begin);
            later(&last, comm->ops[j].start);
            later(&last, comm->ops[j].wait_since);
            later(&last, comm->ops[j].end);
        }
    }
    return last;
}

/* ---- Events and counters ---- */

static int by_number(const void *left, const void *right)
{
    uint64_t a = ((const struct blackbox_event *)left)->number, b = ((const struct blackbox_event *)right)->number;
    return a < b ? -1 : a > b;
}

static void decode_event(struct blackbox_event *out, const struct wire_box_event *in, const struct box_rate *rate)
{
    *out = (struct blackbox_event){in->stamp - 1, box_rate_ns(rate, in->time),
                                   in->kind,      in->peer_pid,
                                   in->lane,      in->peer_rank,
                                   in->peer_host, in->comm,
                                   in->value1,    in->value2};
}

/* Reads the ring twice and keeps what did not change meanwhile. */
static bool read_events(struct blackbox *box, const struct box_source *source, const struct box_rate *rate)
{
    const struct wire_box_section *section = &box->header.events;
    size_t bytes = (size_t)section->bytes * section->count;
    uint8_t *first = malloc(2 * bytes);
    box->events = malloc(section->count * sizeof *box->events);
    bool fine = first && box->events;
    if (fine && box_source_read(source, section->offset, first, bytes)) {
        box_source_barrier();
        if (!box_source_read(source, section->offset, first + bytes, bytes))
            memset(first + bytes, 0, bytes);
        for (uint32_t i = 0; i < section->count; i++) {
            struct wire_box_event a, b;
            memcpy(&a, first + (size_t)i * section->bytes, sizeof a);
            memcpy(&b, first + bytes + (size_t)i * section->bytes, sizeof b);
            if (a.stamp && memcmp(&a, &b, sizeof a) == 0 && ((a.stamp - 1) & (section->count - 1)) == i)
                decode_event(&box->events[box->event_count++], &a, rate);
            else if (a.stamp || b.stamp)
                box->torn++;
        }
        qsort(box->events, box->event_count, sizeof *box->events, by_number);
    }
    free(first);
    return fine;
}

static void read_counters(struct blackbox *box, const struct box_source *source)
{
    const struct wire_box_section *section = &box->header.counters;
    box->counter_count = section->count < WIRE_BOX_COUNTERS ? section->count : WIRE_BOX_COUNTERS;
    for (size_t i = 0; i < box->counter_count; i++)
        if (!box_source_read(source, section->offset + i * section->bytes, &box->counters[i], sizeof box->counters[i]))
            box->counters[i] = 0;
}

/* ---- Pauses ---- */

static void decode_pause(struct blackbox_pause *out, const struct wire_box_pause *in, const struct box_rate *rate)
{
    double longest = (double)in->longest * rate->ns_per_tick;
    *out = (struct blackbox_pause){.count = in->count,
                                   .longest = longest < 9e18 ? (uint64_t)longest : (uint64_t)9e18,
                                   .latest = box_rate_ns(rate, in->latest),
                                   .before = (int)(in->before & 0xff) - 1,
                                   .after = (int)(in->after & 0xff) - 1,
                                   .before_count = in->before >> 8,
                                   .after_count = in->after >> 8};
}

/* A row that is being written may be of two pauses: of about one length all the same. */
static void read_pauses(struct blackbox *box, const struct box_source *source, const struct box_rate *rate,
                        const struct boxfile_shift *shift)
{
    struct wire_box_pauses in, again;
    if (!box_source_read(source, WIRE_BOX_PAUSE_AT, &in, sizeof in))
        return;
    for (unsigned i = 0; i < WIRE_BOX_PAUSES; i++)
        if (in.rows[i].count)
            decode_pause(&box->pauses[box->pause_count++], &in.rows[i], rate);
    box_source_barrier();
    if (!box_source_read(source, WIRE_BOX_PAUSE_AT, &again, sizeof again) || in.expected.stamp % 2 ||
        memcmp(&in.expected, &again.expected, sizeof in.expected) != 0 || in.expected.since > in.expected.until)
        return;
    box->expected_since = in.expected.since - (uint64_t)shift->monotonic_ns;
    box->expected_until = in.expected.until ? in.expected.until - (uint64_t)shift->monotonic_ns : 0;
    box_copy_text(box->expected, sizeof box->expected, in.expected.what, sizeof in.expected.what);
}

/* ---- Samples of the speed ---- */

/* Times and counts only grow. */
static bool follows(const struct blackbox *box, const struct blackbox_sample *next)
{
    if (!box->sample_count)
        return true;
    const struct blackbox_sample *last = &box->samples[box->sample_count - 1];
    return next->at > last->at && next->calls >= last->calls && next->bytes >= last->bytes &&
           next->called >= last->called;
}

static void read_samples(struct blackbox *box, const struct box_source *source, const struct box_rate *rate)
{
    struct wire_box_samples in, again;
    uint64_t offset = box->header.samples;
    if (!offset || !box_source_read(source, offset, &in, sizeof in))
        return;
    box_source_barrier();
    if (!box_source_read(source, offset, &again, sizeof again) || in.stamp % 2 || again.stamp != in.stamp ||
        in.count > WIRE_BOX_SAMPLES)
        return;
    for (uint64_t i = 0; i < in.count; i++) {
        const struct blackbox_sample next = {box_rate_ns(rate, in.items[i].at), in.items[i].calls, in.items[i].bytes,
                                             in.called[i]};
        if (follows(box, &next))
            box->samples[box->sample_count++] = next;
    }
}

/* Calls since the last sample are taken to be as large as those before it. */
static uint64_t called_until(const struct blackbox *box, uint64_t calls)
{
    size_t count = box->sample_count;
    if (count < 2)
        return count ? box->samples[0].called : 0;
    const struct blackbox_sample *last = &box->samples[count - 1], *before = &box->samples[count - 2];
    if (last->calls == before->calls || calls <= last->calls)
        return last->called;
    double each = (double)(last->called - before->called) / (double)(last->calls - before->calls);
    double more = each * (double)(calls - last->calls);
    return more < (double)(UINT64_MAX / 2 - last->called / 2) ? last->called + (uint64_t)more : last->called;
}

/* The last sample is of now. */
static void add_sample(struct blackbox *box)
{
    uint64_t calls = box->counters[WIRE_COUNTER_OPERATIONS];
    const struct blackbox_sample now = {box->now, calls,
                                        box->counters[WIRE_COUNTER_SENT_SHM] + box->counters[WIRE_COUNTER_SENT_TCP] +
                                            box->counters[WIRE_COUNTER_SENT_VERBS],
                                        called_until(box, calls)};
    if (box->sample_count && follows(box, &now))
        box->samples[box->sample_count++] = now;
}

/* ---- Whole ---- */

/* As this process's clocks tell the start, which may round differently. */
static bool has_started_then(const struct wire_box_header *header, const struct boxfile_shift *shift)
{
    int64_t tick_ns = (int64_t)NS_PER_S / sysconf(_SC_CLK_TCK);
    uint64_t start = boxfile_start_time(header->pid) + (uint64_t)(shift->boottime_ns / tick_ns);
    uint64_t early = start - header->start_time, late = header->start_time - start; /* one of the two wraps */
    return early == 0 || (shift->boottime_ns && (early == 1 || late == 1));
}

/* *shift: of its clocks, where they can be asked; else 0. */
static bool is_alive(const struct wire_box_header *header, int fd, struct boxfile_shift *shift)
{
    *shift = (struct boxfile_shift){0, 0};
    if (fd < 0 || header->state != WIRE_BOX_OPEN || !same_boot(header) || (header->marked && !boxfile_marked(fd)))
        return false;
    if (header->pid_namespace != boxfile_pid_namespace())
        return true;
    *shift = boxfile_time_shift(header->pid);
    return has_started_then(header, shift);
}

/* The times of a living process become this process's. */
static void box_shift_clocks(struct blackbox *box, const struct boxfile_shift *shift)
{
    box->header.opened.monotonic_ns -= (uint64_t)shift->monotonic_ns;
    box->header.latest.monotonic_ns -= box->header.latest.monotonic_ns ? (uint64_t)shift->monotonic_ns : 0;
}

static tutti_result_t read_all(struct blackbox *box, const struct box_source *source, const char *path)
{
    tutti_result_t result = read_header(box, source, path);
    if (result)
        return result;
    struct boxfile_shift shift;
    box->alive = is_alive(&box->header, source->fd, &shift);
    if (!box->alive)
        shift = (struct boxfile_shift){0, 0};
    box_shift_clocks(box, &shift);
    struct box_rate rate = find_rate(&box->header, same_boot(&box->header));
    find_offset(box);
    read_counters(box, source);
    read_pauses(box, source, &rate, &shift);
    if (!box->outline)
        read_samples(box, source, &rate);
    bool fine = (box->path = strdup(path)) && (box->comms = calloc(box->header.comms.count + 1, sizeof *box->comms)) &&
                (box->outline || read_events(box, source, &rate));
    for (unsigned i = 0; fine && i < box->header.comms.count; i++)
        fine = box_read_comm(box, source, &rate, i);
    fine = fine && (box->lanes = calloc(box->header.lanes.count + 1, sizeof *box->lanes));
    for (unsigned i = 0; fine && !box->outline && i < box->header.lanes.count; i++)
        fine = box_read_lane(box, source, &rate, i);
    if (!fine)
        return error_note(TUTTI_SYSTEM_ERROR, "reading the black box %s: no memory", path);
    box->now = box->alive ? clock_ns() : last_sign(box);
    add_sample(box);
    return TUTTI_SUCCESS;
}

static tutti_result_t read_source(const struct box_source *source, const char *path, bool outline,
                                  struct blackbox **out)
{
    struct blackbox *box = calloc(1, sizeof *box);
    if (box)
        box->outline = outline;
    tutti_result_t result =
        box ? read_all(box, source, path) : error_note(TUTTI_SYSTEM_ERROR, "reading %s: no memory", path);
    if (result)
        blackbox_free(box);
    else
        *out = box;
    return result;
}

static tutti_result_t read_fd(int fd, const char *path, bool outline, struct blackbox **out)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return error_note(TUTTI_INVALID_USAGE, "reading the black box %s: not a file", path);
    return read_source(&(struct box_source){fd, NULL, (uint64_t)info.st_size}, path, outline, out);
}

static tutti_result_t read_path(const char *path, bool outline, struct blackbox **out)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return error_note(TUTTI_SYSTEM_ERROR, "opening the black box %s: %m", path);
    tutti_result_t result = read_fd(fd, path, outline, out);
    close(fd);
    return result;
}

tutti_result_t blackbox_read_fd(int fd, const char *path, struct blackbox **out)
{
    return read_fd(fd, path, false, out);
}

tutti_result_t blackbox_read(const char *path, struct blackbox **out)
{
    return read_path(path, false, out);
}

tutti_result_t blackbox_outline(const char *path, struct blackbox **out)
{
    return read_path(path, true, out);
}

bool blackbox_gone(const struct blackbox *box)
{
    char host[sizeof box->header.host] = "";
    gethostname(host, sizeof host - 1);
    return !box->alive && (box->header.state == WIRE_BOX_CLOSED || same_boot(&box->header) ||
                           strncmp(host, box->header.host, sizeof host) == 0);
}

tutti_result_t blackbox_parse(const void *bytes, size_t size, struct blackbox **out)
{
    return read_source(&(struct box_source){-1, bytes, size}, "in memory", false, out);
}

void blackbox_free(struct blackbox *box)
{
    if (!box)
        return;
    for (size_t i = 0; i < box->comm_count; i++)
        free(box->comms[i].ops);
    for (size_t i = 0; i < box->lane_count; i++)
        blackbox_free_lane(&box->lanes[i]);
    free(box->lanes);
    free(box->comms);
    free(box->events);
    free(box->path);
    free(box);
}
