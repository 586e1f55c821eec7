/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: room for black boxes, memory that ranks share, reading one another's memory, locking it, the size of pages.
 */
#include "cli/doctor.h"

#include "base/param.h"
#include "cli/trace_text.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMS_OF_A_RANK 4 /* the world and a few of its parts, as in training */
#define MIB             (1ull << 20)

/* ---- room for black boxes ---- */

static const char blind[] = "processes without a black box: tutti trace, top, diagnose and export do not see them";

/* The bytes of one rank's box when all ranks are joined. */
static uint64_t box_of_a_rank(int ranks)
{
    uint64_t lanes = (uint64_t)(ranks - 1) * (uint64_t)param_int(PARAM_TCP_LANES);
    return WIRE_BOX_COMM_AT + COMMS_OF_A_RANK * WIRE_BOX_COMM_BYTES +
           (lanes < WIRE_BOX_LANES ? lanes : WIRE_BOX_LANES) * WIRE_BOX_LANE_BYTES;
}

static uint64_t taken_by_the_dead(const struct view_set *boxes)
{
    struct stat info;
    uint64_t bytes = 0;
    for (size_t i = 0; i < boxes->count; i++)
        if (!boxes->boxes[i]->alive && stat(boxes->boxes[i]->path, &info) == 0)
            bytes += (uint64_t)info.st_blocks * 512;
    return bytes;
}

/* Is a folder in memory? If not, `out` gets what it is. */
static bool in_memory(const char *dir, struct doctor_result *out)
{
    static const struct {
        long type;
        const char *name;
    } known[] = {{EXT4_SUPER_MAGIC, "ext4"},
                 {XFS_SUPER_MAGIC, "xfs"},
                 {BTRFS_SUPER_MAGIC, "btrfs"},
                 {NFS_SUPER_MAGIC, "NFS"},
                 {OVERLAYFS_SUPER_MAGIC, "overlay"}};
    struct statfs disk;
    const char *name = "no tmpfs";
    if (statfs(dir, &disk) != 0 || disk.f_type == TMPFS_MAGIC || disk.f_type == RAMFS_MAGIC)
        return true;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if ((long)disk.f_type == known[i].type)
            name = known[i].name;
    doctor_found(out, "; %s is not in memory but on a disk (%s)", dir, name);
    return false;
}

static void on_a_disk(struct doctor_result *out, const char *dir)
{
    static const char cost[] = "the kernel writes the boxes to the disk again and again, and ranks wait for it "
                               "meanwhile: milliseconds in operations of microseconds";
    struct statfs shm;
    if (in_memory(dir, out))
        return;
    if (statfs("/dev/shm", &shm) == 0 && shm.f_type == TMPFS_MAGIC)
        doctor_complain(out, DOCTOR_WARN, cost, "export TUTTI_TRACE_DIR=/dev/shm");
    else
        doctor_complain(out, DOCTOR_WARN, cost,
                        "mount -t tmpfs none /dev/shm (docker: --shm-size=1g, or "
                        "--ipc=host)");
}

/* A disk of `size` bytes would have enough room. */
static void too_little_room(struct doctor_result *out, const char *dir, enum doctor_state state, uint64_t size)
{
    struct statfs disk;
    if (statfs(dir, &disk) == 0 && disk.f_type != TMPFS_MAGIC) {
        doctor_complain(out, state, blind, "export TUTTI_TRACE_DIR=a folder with room");
        return;
    }
    uintmax_t mib = size / MIB + 64;
    doctor_complain(out, state, blind,
                    "mount -o remount,size=%juM %s (docker: --shm-size=%jum), or TUTTI_TRACE_DIR=a folder with room",
                    mib, dir, mib);
}

void doctor_boxes(const struct doctor *doctor, struct doctor_result *out)
{
    const char *dir = param_string(PARAM_TRACE_DIR);
    struct rlimit file = {RLIM_INFINITY, RLIM_INFINITY};
    struct statvfs disk;
    if (!param_int(PARAM_TRACE)) {
        doctor_found(out, "switched off by %s=0", param_source(PARAM_TRACE));
        doctor_complain(out, DOCTOR_WARN, blind, "unset %s", param_source(PARAM_TRACE));
        return;
    }
    if (access(dir, R_OK | W_OK | X_OK) != 0 || statvfs(dir, &disk) != 0) {
        doctor_found(out, "%s: %s", dir, strerror(errno));
        doctor_complain(out, DOCTOR_WRONG, blind, "export TUTTI_TRACE_DIR=a folder that can be written");
        return;
    }
    uint64_t free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize, all = (uint64_t)disk.f_blocks * disk.f_frsize;
    uint64_t one = box_of_a_rank(doctor->ranks), wanted = one * (uint64_t)doctor->ranks;
    doctor_found(out, "%s has %s free of %s; boxes of %d ranks take %s", dir, view_size(free_bytes).text,
                 view_size(all).text, doctor->ranks, view_size(wanted).text);
    enum doctor_state state = free_bytes < one ? DOCTOR_WRONG : DOCTOR_WARN;
    if (free_bytes < wanted && free_bytes + taken_by_the_dead(&doctor->boxes) >= wanted)
        doctor_complain(out, state, blind, "tutti trace --clean");
    else if (free_bytes < wanted)
        too_little_room(out, dir, state, all - free_bytes + wanted);
    on_a_disk(out, dir);
    getrlimit(RLIMIT_FSIZE, &file);
    if (file.rlim_cur < WIRE_BOX_BYTES) {
        doctor_found(out, "; files may have %s (ulimit -f)", view_size(file.rlim_cur).text);
        doctor_complain(out, DOCTOR_WRONG, blind, "ulimit -f unlimited");
    }
}

/* ---- memory that ranks share ---- */

static bool sealed_memory_works(void)
{
    int fd = memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool works = fd >= 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0;
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return works;
}

void doctor_shared(const struct doctor *doctor, struct doctor_result *out)
{
    struct statvfs disk;
    uint64_t wanted = (uint64_t)doctor->ranks * (uint64_t)param_int(PARAM_SHM_MEMORY);
    if (sealed_memory_works()) {
        doctor_found(out, "memfd_create works: lanes take nothing of /dev/shm");
        return;
    }
    doctor_found(out, "memfd_create: %s", strerror(errno));
    uint64_t room = statvfs("/dev/shm", &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize : 0;
    doctor_found(out, ", so lanes are made in /dev/shm, which has %s free; %d ranks fill up to %s",
                 view_size(room).text, doctor->ranks, view_size(wanted).text);
    if (room < wanted)
        doctor_complain(out, DOCTOR_WRONG, "ranks of this host fail to connect, or talk by TCP, when it is full",
                        "mount -o remount,size=%juM /dev/shm (docker: --shm-size=%jum)", (uintmax_t)(wanted / MIB + 64),
                        (uintmax_t)(wanted / MIB + 64));
    if (!in_memory("/dev/shm", out))
        doctor_complain(out, DOCTOR_WRONG, "what ranks write for one another is written to the disk, too",
                        "mount -t tmpfs none /dev/shm (docker: --shm-size=%jum, or --ipc=host)",
                        (uintmax_t)(wanted / MIB + 64));
    doctor_complain(out, DOCTOR_WARN, "memory that lanes have used once is given back at their end only",
                    "allow memfd_create in the container's seccomp profile");
}

/* ---- reading one another's memory ---- */

/* A child reads its parent, because ranks do not trace each other either. Returns 0, or the errno. */
static int try_to_attach(void)
{
    static const int word = 42;
    int seen = 0, status = 0;
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        struct iovec here = {&seen, sizeof seen}, there = {(void *)(uintptr_t)&word, sizeof word};
        _exit(process_vm_readv(parent, &here, 1, &there, 1, 0) == sizeof seen ? 0 : errno);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : ENOSYS; /* seccomp may kill instead of refusing */
}

void doctor_attach(const struct doctor *doctor, struct doctor_result *out)
{
    static const char cost[] = "messages from TUTTI_SHM_CMA_MIN (16K) on are copied twice, through a ring: up to five "
                               "times slower between distant cores";
    int error = try_to_attach();
    int64_t scope = topology_read_number("", "/proc/sys/kernel/yama/ptrace_scope", -1);
    doctor_found(out, "process_vm_readv %s%s", error ? "between ranks: " : "works", error ? strerror(error) : "");
    if (scope >= 0)
        doctor_found(out, "; kernel.yama.ptrace_scope is %jd", (intmax_t)scope);
    if (!param_int(PARAM_SHM_CMA)) {
        doctor_found(out, "; switched off by %s", param_source(PARAM_SHM_CMA));
        doctor_complain(out, DOCTOR_WARN, cost, "unset %s", param_source(PARAM_SHM_CMA));
    }
    if (error == EPERM && scope > 0)
        doctor_complain(out, DOCTOR_WARN, cost, "sysctl -w kernel.yama.ptrace_scope=0%s",
                        scope == 3 ? ", in the boot configuration: 3 stays until the next boot" : "");
    else if (error)
        doctor_complain(out, DOCTOR_WARN, cost,
                        "allow process_vm_readv in the container's seccomp profile (docker: --cap-add SYS_PTRACE)");
}

/* ---- limits and pages ---- */

static bool has_rdma(const struct topology *devices)
{
    for (int i = 0; i < devices->count; i++)
        if (devices->nodes[i].kind == TOPOLOGY_RDMA)
            return true;
    return false;
}

void doctor_memlock(const struct doctor *doctor, struct doctor_result *out)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    bool endless = limit.rlim_cur == RLIM_INFINITY;
    doctor_found(out, "%s may be locked (ulimit -l)", endless ? "any memory" : view_size(limit.rlim_cur).text);
    if (endless)
        return;
    if (!has_rdma(&doctor->devices))
        doctor_found(out, "; only RDMA devices would need more, and there is none");
    else
        doctor_complain(out, DOCTOR_WARN, "RDMA libraries cannot register buffers beyond that",
                        "ulimit -l unlimited; for all: '* - memlock unlimited' in /etc/security/limits.conf (docker: "
                        "--ulimit memlock=-1)");
}

void doctor_pages(const struct doctor *doctor, struct doctor_result *out)
{
    char line[128] = "";
    static const char path[] = "/sys/kernel/mm/transparent_hugepage/enabled";
    if (!topology_read_line("", path, line, sizeof line)) {
        doctor_found(out, "this kernel has no transparent huge pages, or hides them");
        return;
    }
    const char *chosen = strchr(line, '[');
    doctor_found(out, "transparent huge pages: %.*s", chosen ? (int)strcspn(chosen + 1, "]") : 1,
                 chosen ? chosen + 1 : "?");
    if (strstr(line, "[never]"))
        doctor_complain(out, DOCTOR_WARN,
                        "large buffers take 512 times as many page faults, and more misses of address translation",
                        "echo madvise >%s", path);
}
