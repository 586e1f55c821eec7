/* SPDX-License-Identifier: Apache-2.0 */
/* The tool: runs a program on the emulator, and talks to programs that run on it. */
#include "verbs/control.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_MS     20000 /* a starved process answers late */
#define PATHS_LIBRARY "libsoftverbs_paths.so"

static int usage(void)
{
    fputs("softverbs run -- PROGRAM ARGUMENTS...   run a program on the emulated RDMA devices\n"
          "softverbs env                           print what `run` sets, for a shell\n"
          "softverbs list                          the processes of this network namespace that run on it\n"
          "softverbs ctl SLOT|all COMMAND...       stats | info | fault LIST | clear | kill QPN | freeze DEVICE | thaw "
          "DEVICE |\n"
          "                                        unplug DEVICE | plug DEVICE | gid-shift N [DEVICE] |\n"
          "                                        flush [NAME] | rates [LIST]\n"
          "softverbs is an emulator: what it measures says nothing about RDMA hardware.\n",
          stderr);
    return 2;
}

/* The folder of the libraries: SOFTVERBS_LIB, or that of this program in a build, or the one where they were installed.
 */
static const char *library_folder(void)
{
    static char folder[4096 + sizeof(INSTALLED_LIBRARIES)];
    char beside[sizeof(folder) + sizeof("/" PATHS_LIBRARY)];
    const char *set = getenv("SOFTVERBS_LIB");
    if (set)
        return set;
    ssize_t n = readlink("/proc/self/exe", folder, 4095);
    if (n < 0)
        return NULL;
    folder[n] = 0;
    *strrchr(folder, '/') = 0;
    snprintf(beside, sizeof(beside), "%s/" PATHS_LIBRARY, folder);
    if (access(beside, R_OK))
        strcat(folder, "/" INSTALLED_LIBRARIES);
    return folder;
}

/* "first:rest" or "first". */
static void join(char *out, size_t size, const char *first, const char *name)
{
    const char *rest = getenv(name);
    snprintf(out, size, "%s%s%s", first, rest && *rest ? ":" : "", rest ? rest : "");
}

static int set_environment(char *path, char *preload, size_t size)
{
    char paths[4300];
    const char *folder = library_folder();
    if (!folder)
        return errno;
    join(path, size, folder, "LD_LIBRARY_PATH");
    snprintf(paths, sizeof(paths), "%s/" PATHS_LIBRARY, folder);
    join(preload, size, paths, "LD_PRELOAD");
    return 0;
}

static int run(int argc, char **argv)
{
    char path[8192], preload[8192];
    if (argc > 0 && !strcmp(argv[0], "--")) {
        argc--;
        argv++;
    }
    if (argc < 1 || set_environment(path, preload, sizeof(path)))
        return usage();
    setenv("LD_LIBRARY_PATH", path, 1);
    setenv("LD_PRELOAD", preload, 1);
    execvp(argv[0], argv);
    fprintf(stderr, "softverbs: running %s: %s\n", argv[0], strerror(errno));
    return 127;
}

static int print_environment(void)
{
    char path[8192], preload[8192];
    if (set_environment(path, preload, sizeof(path)))
        return 1;
    printf("export LD_LIBRARY_PATH='%s' LD_PRELOAD='%s'\n", path, preload);
    return 0;
}

static socklen_t make_name(struct sockaddr_un *address, unsigned slot)
{
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    int n = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, CONTROL_PREFIX "%u", slot);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int ask(unsigned slot, const char *command)
{
    struct sockaddr_un to, own = {.sun_family = AF_UNIX};
    char answer[CONTROL_ANSWER + 1];
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;
    socklen_t size = make_name(&to, slot);
    ssize_t n = -1;
    if (fd >= 0 && !bind(fd, (struct sockaddr *)&own, sizeof(own.sun_family)) &&
        !setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) &&
        sendto(fd, command, strlen(command), 0, (struct sockaddr *)&to, size) >= 0) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        errno = ETIMEDOUT;
        n = poll(&wait, 1, ANSWER_MS) == 1 ? recv(fd, answer, sizeof(answer) - 1, 0) : -1;
    }
    if (n < 16) {
        fprintf(stderr, "softverbs: asking slot %u: %s\n", slot, strerror(errno));
    } else {
        answer[n] = 0;
        int err = atoi(answer);
        fputs(answer + 16, err ? stderr : stdout);
        if (err)
            fprintf(stderr, "softverbs: slot %u: %s\n", slot, strerror(err));
        n = err ? -1 : 0;
    }
    if (fd >= 0)
        close(fd);
    return n < 0;
}

/* Calls `each` for every slot in use; returns the number of failures, -1 when there was none to ask. */
static int each_slot(int (*each)(unsigned slot, const char *command), const char *command)
{
    char line[512];
    int found = 0, failed = 0;
    FILE *file = fopen("/proc/net/unix", "re");
    if (!file)
        return 1;
    while (fgets(line, sizeof(line), file)) {
        unsigned slot;
        if (!control_slot_of(line, &slot))
            continue;
        failed += each(slot, command);
        found++;
    }
    fclose(file);
    return found ? failed : -1;
}

static int print_slot(unsigned slot, const char *command)
{
    printf("slot %u: ", slot);
    fflush(stdout);
    return ask(slot, "info");
}

static int ctl(int argc, char **argv)
{
    char command[512] = "";
    if (argc < 2)
        return usage();
    for (int i = 1; i < argc; i++) {
        size_t used = strlen(command);
        snprintf(command + used, sizeof(command) - used, "%s%s", i > 1 ? " " : "", argv[i]);
    }
    if (strcmp(argv[0], "all"))
        return ask((unsigned)strtoul(argv[0], NULL, 10), command);
    int failed = each_slot(ask, command);
    if (failed < 0)
        fputs("softverbs: no process of this network namespace runs on the emulator\n", stderr);
    return failed != 0;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return usage();
    if (!strcmp(argv[1], "run"))
        return run(argc - 2, argv + 2);
    if (!strcmp(argv[1], "env"))
        return print_environment();
    if (!strcmp(argv[1], "list"))
        return each_slot(print_slot, NULL) > 0;
    if (!strcmp(argv[1], "ctl"))
        return ctl(argc - 2, argv + 2);
    return usage();
}
