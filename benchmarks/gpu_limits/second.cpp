/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_limits waits: a second process, whose memory the first one maps. It does what its standard input says, a letter
 * at a time. */
#include "limits.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace
{

constexpr char STREAM = 'w', KERNEL = 'k', RELEASE = 'r', DONE = 'y';

bool write_all(int fd, const void *from, size_t size)
{
    const char *at = (const char *)from;
    while (size) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

bool read_all(int fd, void *to, size_t size)
{
    char *at = (char *)to;
    while (size) {
        ssize_t n = read(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

/* The process that runs in this program's file, with pipes as its standard input and output. 0, or what is wrong. */
int spawn(int *pid, const char *ordinal, int in, int out)
{
    char program[] = "/proc/self/exe", word[] = "--second";
    char *arguments[] = {program, word, (char *)ordinal, nullptr};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    error = posix_spawn_file_actions_adddup2(&actions, in, 0);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, out, 1);
    if (!error)
        error = posix_spawn(pid, program, &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

CUipcMemHandle set_up(Gpu &gpu)
{
    CUipcMemHandle handle;
    void *host;
    OK(cuInit(0));
    OK(cuDeviceGet(&gpu.device, gpu.index));
    OK(cuDevicePrimaryCtxRetain(&gpu.context, gpu.device));
    set_current(gpu);
    machine.image = load_image();
    load_kernels(gpu);
    OK(cuMemAlloc(&gpu.in, 4 * MIB));
    OK(cuIpcGetMemHandle(&handle, gpu.in));
    OK(cuStreamCreate(&gpu.streams[1], CU_STREAM_NON_BLOCKING));
    OK(cuMemHostAlloc(&host, HOST_WORDS, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    memset(host, 0, HOST_WORDS);
    machine.host = (uint32_t *)host;
    return handle;
}

void obey(const Gpu &gpu)
{
    std::unique_ptr<Blocker> blocker;
    char command;
    while (read_all(0, &command, 1)) {
        blocker.reset();
        if (command != RELEASE)
            blocker = std::make_unique<Blocker>(gpu, command == KERNEL);
        if (!write_all(1, &DONE, 1))
            return;
    }
}

} // namespace

int second_process(int argc, char **argv)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    Gpu gpu = {};
    gpu.index = argc > 2 ? atoi(argv[2]) : 0;
    try {
        CUipcMemHandle handle = set_up(gpu);
        if (write_all(1, &handle, sizeof(handle)))
            obey(gpu);
    } catch (const std::exception &failure) {
        fprintf(stderr, "gpu_limits, second process: %s\n", failure.what());
        return 1;
    }
    return 0;
}

Second::Second(int ordinal)
{
    int in[2], out[2] = {-1, -1};
    signal(SIGPIPE, SIG_IGN);
    if (pipe2(in, O_CLOEXEC))
        throw Failure(text("pipes for a second process: %s", strerror(errno)));
    int error = pipe2(out, O_CLOEXEC) ? errno : spawn(&pid, std::to_string(ordinal).c_str(), in[0], out[1]);
    close(in[0]);
    close(out[1]);
    to = in[1];
    from = out[0];
    if (error || !read_all(from, &memory, sizeof(memory))) {
        end();
        throw Failure(text("starting a second process: %s", error ? strerror(error) : "it ended before it had memory"));
    }
}

Second::~Second()
{
    end();
}

void Second::end()
{
    close(to); /* at the end of its input it ends */
    close(from);
    if (pid > 0)
        waitpid(pid, nullptr, 0);
    pid = -1;
}

void Second::ask(char command)
{
    char answer = 0;
    if (!write_all(to, &command, 1) || !read_all(from, &answer, 1) || answer != DONE)
        throw Failure("the second process has ended");
}

void Second::block(bool kernel)
{
    ask(kernel ? KERNEL : STREAM);
}

void Second::release()
{
    ask(RELEASE);
}
