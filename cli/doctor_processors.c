/* SPDX-License-Identifier: Apache-2.0 */
/* Processors, their quota, clocks, descriptors, and the parameters. */
#include "cli/doctor.h"

#include "base/affinity.h"
#include "base/error.h"
#include "base/param.h"
#include "base/ticks.h"
#include "diagnosis/phrase.h"
#include "wire/boxfile.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- which, and how many ---- */

void doctor_processors(const struct doctor *doctor, struct doctor_result *out)
{
    int allowed = affinity_count(NULL);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    doctor_found(out, "%d of %ld may be used, by %d rank%s", allowed, online, doctor->ranks,
                 doctor->ranks == 1 ? "" : "s");
    if (allowed == 1 && online > 1)
        doctor_complain(out, DOCTOR_WARN,
                        "all ranks started from here share one processor and wait for each other's turns",
                        "taskset -pc 0-%ld $$ (batch systems: ask for more processors, or for no binding)", online - 1);
    else if (allowed > 0 && allowed < doctor->ranks)
        doctor_complain(out, DOCTOR_WARN,
                        "ranks share processors: an operation waits for turns of the scheduler, milliseconds instead "
                        "of microseconds",
                        "start %d ranks here%s", allowed,
                        allowed < online ? ", or allow more processors: taskset, --cpuset-cpus, --cpu-bind" : "");
}

/* ---- quota ---- */

struct quota {
    double processors; /* 0: no limit was found */
    double period_ms;
    char folder[PATH_MAX];
};

static bool read_text(const char *folder, const char *name, char *out, size_t size)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return topology_read_line("", path, out, size);
}

/* Reads "150000 100000" or "max 100000" of version 2; of version 1 two files, where -1 is no limit. */
static void read_quota(const char *folder, struct quota *least)
{
    char line[64], period[32];
    double limit = 0, length = 100000;
    if (read_text(folder, "cpu.max", line, sizeof line)) {
        if (sscanf(line, "%lf %lf", &limit, &length) < 1)
            return;
    } else if (read_text(folder, "cpu.cfs_quota_us", line, sizeof line) &&
               read_text(folder, "cpu.cfs_period_us", period, sizeof period)) {
        limit = strtod(line, NULL);
        length = strtod(period, NULL);
    }
    if (limit <= 0 || length <= 0 || (least->processors > 0 && limit / length >= least->processors))
        return;
    least->processors = limit / length;
    least->period_ms = length / 1000;
    snprintf(least->folder, sizeof least->folder, "%s", folder);
}

/* Takes the limits of all groups above, too. Where the path is another namespace's, only the topmost is there. */
static void read_upward(const char *mount, const char *group, struct quota *least)
{
    char folder[PATH_MAX];
    size_t top = strlen(mount);
    if ((size_t)snprintf(folder, sizeof folder, "%s%s", mount, group) >= sizeof folder)
        return;
    for (char *slash; strlen(folder) > top && (slash = strrchr(folder, '/')); *slash = 0)
        read_quota(folder, least);
    read_quota(mount, least);
}

/* Reads lines of /proc/self/cgroup: "0::/path" of version 2, "4:cpu,cpuacct:/path" of version 1. */
static void find_quota(struct quota *least)
{
    char text[8192], *rest = text;
    boxfile_slurp("/proc/self/cgroup", text, sizeof text);
    for (char *line; (line = strsep(&rest, "\n"));) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        char wrapped[512];
        snprintf(wrapped, sizeof wrapped, ",%s,", controllers + 1);
        if (!controllers[1]) {
            read_upward("/sys/fs/cgroup", group, least);
            read_upward("/sys/fs/cgroup/unified", group, least);
        } else if (strstr(wrapped, ",cpu,")) {
            read_upward("/sys/fs/cgroup/cpu", group, least);
            read_upward("/sys/fs/cgroup/cpu,cpuacct", group, least);
        }
    }
}

/* Finds "nr_throttled 12" among the lines of cpu.stat. */
static void add_throttled(const struct quota *quota, struct doctor_result *out)
{
    char path[PATH_MAX + 16], text[2048];
    snprintf(path, sizeof path, "%s/cpu.stat", quota->folder);
    boxfile_slurp(path, text, sizeof text);
    const char *line = strstr(text, "nr_throttled ");
    if (line)
        doctor_found(out, ", stopped for it %ld times so far", strtol(line + strlen("nr_throttled "), NULL, 10));
}

void doctor_quota(const struct doctor *doctor, struct doctor_result *out)
{
    static const char cost[] =
        "waiting ranks poll: they use it up, and then all stand still for the rest of the period";
    struct quota quota = {0};
    find_quota(&quota);
    if (quota.processors <= 0) {
        doctor_found(out, "no control group limits processors");
        return;
    }
    doctor_found(out, "%.2f processors in each %.0f ms by %s", quota.processors, quota.period_ms, quota.folder);
    add_throttled(&quota, out);
    if (quota.processors < doctor->ranks)
        doctor_complain(out, quota.processors < 1 ? DOCTOR_WRONG : DOCTOR_WARN, cost,
                        "docker update --cpus %d CONTAINER; systemctl set-property UNIT CPUQuota=%d%%; Kubernetes: "
                        "resources.limits.cpu",
                        doctor->ranks, 100 * doctor->ranks);
}

/* ---- clocks ---- */

#define READINGS 2000
#define SLOW_NS                                                                                                        \
    400 /* a reading of the clock takes 20 to 60 ns from a page of the kernel's, several hundred ns by a system call   \
         */

static double reading_ns(void)
{
    double best = 1e9;
    for (int turn = 0; turn < 5; turn++) {
        uint64_t begin = clock_ns();
        for (int i = 0; i < READINGS; i++)
            clock_ns();
        double each = (double)(clock_ns() - begin) / (READINGS + 1);
        best = each < best ? each : best;
    }
    return best;
}

static bool slow_source(const char *name)
{
    static const char *const slow[] = {"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"};
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++)
        if (strcmp(name, slow[i]) == 0)
            return true;
    return false;
}

void doctor_clock(const struct doctor *doctor, struct doctor_result *out)
{
    char source[64] = "not named", others[128] = "";
    topology_read_line("", "/sys/devices/system/clocksource/clocksource0/current_clocksource", source, sizeof source);
    topology_read_line("", "/sys/devices/system/clocksource/clocksource0/available_clocksource", others, sizeof others);
    double each = reading_ns();
    doctor_found(out, "source %s, %.0f ns a reading; %s", source, each,
                 ticks_reliable() ? "the processor's counter runs at one rate"
                                  : "the processor's counter is not to be used");
    if (!slow_source(source) && each < SLOW_NS)
        return;
    const char *better = strstr(others, "tsc") ? "tsc" : strstr(others, "kvm-clock") ? "kvm-clock" : NULL;
    static const char cost[] =
        "each look at the time is a system call: small operations take a microsecond more, and traces are coarse";
    if (better)
        doctor_complain(out, DOCTOR_WARN, cost,
                        "echo %s >/sys/devices/system/clocksource/clocksource0/current_clocksource", better);
    else
        doctor_complain(
            out, DOCTOR_WARN, cost,
            "boot with tsc=reliable if the processor's counter can be trusted; virtual machines: pass it through");
}

/* ---- descriptors ---- */

/* descriptors of a process: standard streams, event loops, the box, sockets that listen, some of the program's */
#define FILES_OF_A_RANK 40
#define FILES_OF_A_PEER                                                                                                \
    6 /* descriptors of a peer: a lane's socket, its memory, its page and bell, or TCP lanes; and short-lived ones */

void doctor_files(const struct doctor *doctor, struct doctor_result *out)
{
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NOFILE, &limit);
    uint64_t wanted = FILES_OF_A_RANK + FILES_OF_A_PEER * (uint64_t)(doctor->ranks - 1);
    doctor_found(out, "%s may be open (ulimit -n)", doctor_limit(limit.rlim_cur).text);
    if (limit.rlim_cur != RLIM_INFINITY)
        doctor_found(
            out, ", enough for %ju peers of a rank",
            (uintmax_t)(limit.rlim_cur > FILES_OF_A_RANK ? (limit.rlim_cur - FILES_OF_A_RANK) / FILES_OF_A_PEER : 0));
    if (limit.rlim_cur >= wanted)
        return;
    static const char cost[] = "communicators of all ranks cannot be made: too many open files";
    if (limit.rlim_max >= wanted)
        doctor_complain(out, DOCTOR_WRONG, cost, "ulimit -n %s", doctor_limit(limit.rlim_max).text);
    else
        doctor_complain(
            out, DOCTOR_WRONG, cost,
            "'* - nofile 65536' in /etc/security/limits.conf (docker: --ulimit nofile=65536; systemd: LimitNOFILE=)");
}

/* ---- parameters ---- */

static void tell_unknown(const char *variable, int length, const char *meant, void *context)
{
    struct doctor_result *out = context;
    if (*variable != 'T' && !meant)
        return; /* NCCL has other settings, which do no harm */
    doctor_found(out, "; %.*s is no parameter", length, variable);
    if (meant)
        doctor_complain(out, DOCTOR_WARN, "what it was to change stays as it is", "%s in the place of %.*s", meant,
                        length, variable);
    else
        doctor_complain(out, DOCTOR_WARN, "what it was to change stays as it is", "unset %.*s", length, variable);
}

void doctor_parameters(const struct doctor *doctor, struct doctor_result *out)
{
    int set = 0;
    if (param_check() != TUTTI_SUCCESS) {
        doctor_found(out, "%s", error_last());
        doctor_complain(out, DOCTOR_WRONG, "no communicator is made while a parameter is wrong",
                        "tutti env shows what each may be");
        return;
    }
    for (int id = 0; id < PARAM_COUNT; id++)
        set += strcmp(param_source((enum param_id)id), "default") != 0;
    doctor_found(out, "%d of %d are set, and all can be read", set, PARAM_COUNT);
    param_each_unknown(tell_unknown, out);
}
