/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_limits: what the GPUs of one host, their copy engines and their driver can do, measured without any library. */
#include "limits.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>

Machine machine;

namespace
{

struct Part {
    const char *name, *what;
    void (*run)();
};

const Part parts[] = {
    {"copies", "copy engines: pairs, rings, all to all, pushed and pulled; pauses between copies", part_copies},
    {"stores", "kernels that store to and load from peers, with few and many blocks", part_stores},
    {"latency", "flags and packets between GPUs, fences, barriers, launches", part_latency},
    {"calls", "what driver calls cost the host, in nanoseconds", part_calls},
    {"waits", "which driver calls wait for what is under way on a GPU", part_waits},
};

struct Options {
    std::string json;
    int gpus = GPUS_MOST;
    double limit = 120;
    std::vector<const Part *> todo;
};

void help(FILE *to)
{
    fprintf(to, "gpu_limits [--json FILE] [--gpus N] [--most BYTES] [--limit SECONDS] [PART...]\n\n"
                "What the GPUs of this host can do, as tables. Without names all parts run, within a minute:\n\n");
    for (const Part &part : parts)
        fprintf(to, "  %-8s  %s\n", part.name, part.what);
    fprintf(to, "\n  --json FILE      also writes the tables there, after every part\n"
                "  --gpus N         1 to 4, those of least number (4, or as many as there are)\n"
                "  --most BYTES     the longest copy; K, M, G may follow (256M)\n"
                "  --limit SECONDS  the program ends then, whatever it is doing (120)\n\n"
                "Exit status: 0 all went well, 1 a check failed, a part could not go on, or there is no GPU, 2 wrong "
                "arguments.\n");
}

[[noreturn]] void usage(const std::string &said)
{
    fprintf(stderr, "gpu_limits: %s (--help says more)\n", said.c_str());
    exit(2);
}

double number(const char *name, const char *value, double low, double high)
{
    char *end = nullptr;
    double found = value ? strtod(value, &end) : 0;
    const char *units = "KMG", *unit = end && *end ? strchr(units, *end) : nullptr;
    if (unit) {
        found *= (double)(1ull << 10 * (unit - units + 1));
        end++;
    }
    if (!value || end == value || *end || !(found >= low && found <= high))
        usage(text("%s takes a number from %g to %g", name, low, high));
    return found;
}

void option(Options &options, const char *name, const char *value)
{
    if (!strcmp(name, "--json") && value)
        options.json = value;
    else if (!strcmp(name, "--gpus"))
        options.gpus = (int)number(name, value, 1, GPUS_MOST);
    else if (!strcmp(name, "--most"))
        machine.most = (size_t)number(name, value, MIB, 2048.0 * MIB) / MIB * MIB;
    else if (!strcmp(name, "--limit"))
        options.limit = number(name, value, 1, 1e6);
    else
        usage(text("%s is no option, or lacks its value", name));
}

const Part *find(const char *name)
{
    for (const Part &part : parts)
        if (!strcmp(part.name, name))
            return &part;
    usage(text("there is no part %s", name));
}

Options read_options(int argc, char **argv)
{
    Options options;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            help(stdout);
            exit(0);
        }
        if (argv[i][0] == '-') {
            option(options, argv[i], argv[i + 1]);
            i++;
        } else {
            options.todo.push_back(find(argv[i]));
        }
    }
    if (options.todo.empty())
        for (const Part &part : parts)
            options.todo.push_back(&part);
    return options;
}

void make_gpu(int index)
{
    Gpu gpu = {};
    gpu.index = index;
    OK(cuDeviceGet(&gpu.device, index));
    OK(cuDevicePrimaryCtxRetain(&gpu.context, gpu.device));
    set_current(gpu);
    OK(cuMemAlloc(&gpu.in, machine.most));
    OK(cuMemAlloc(&gpu.out, machine.most * GPUS_MOST));
    OK(cuMemAlloc(&gpu.words, WORDS));
    OK(cuMemsetD8(gpu.words, 0, WORDS));
    for (int s = 0; s < STREAMS; s++) {
        OK(cuStreamCreate(&gpu.streams[s], CU_STREAM_NON_BLOCKING));
        OK(cuEventCreate(&gpu.done[s], CU_EVENT_DISABLE_TIMING));
    }
    OK(cuEventCreate(&gpu.begin, CU_EVENT_DEFAULT));
    OK(cuEventCreate(&gpu.end, CU_EVENT_DEFAULT));
    load_kernels(gpu);
    machine.gpus.push_back(gpu);
}

void see_peers(const Gpu &gpu)
{
    set_current(gpu);
    for (const Gpu &peer : machine.gpus) {
        int can = 0;
        if (peer.index == gpu.index)
            continue;
        OK(cuDeviceCanAccessPeer(&can, gpu.device, peer.device));
        if (!can)
            throw Failure(text("GPU %d has no access to GPU %d: --gpus takes fewer", gpu.index, peer.index));
        OK(cuCtxEnablePeerAccess(peer.context, 0));
    }
}

void describe()
{
    char name[128] = "";
    int major = 0;
    OK(cuDeviceGetName(name, sizeof(name), machine.gpus[0].device));
    OK(cuDriverGetVersion(&machine.driver));
    OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, machine.gpus[0].device));
    machine.name = name;
    machine.bulk = major >= 9;
    printf("%d x %s, driver %d, longest copy %zu MiB\n", gpu_count(), name, machine.driver, machine.most / MIB);
}

void start(const Options &options)
{
    int count = 0;
    void *host = nullptr;
    CUresult result = cuInit(0);
    if (!result)
        result = cuDeviceGetCount(&count);
    if (result || !count)
        throw Failure("there is no GPU: " + (result ? error_name(result) : std::string("cuDeviceGetCount says 0")));
    machine.image = load_image();
    for (int i = 0; i < count && i < options.gpus; i++)
        make_gpu(i);
    for (const Gpu &gpu : machine.gpus)
        see_peers(gpu);
    OK(cuMemHostAlloc(&host, HOST_WORDS, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    memset(host, 0, HOST_WORDS);
    machine.host = (uint32_t *)host;
    describe();
}

void run_part(const Part &part)
{
    printf("\n==== %s: %s\n", part.name, part.what);
    report_part(part.name);
    try {
        part.run();
        synchronize_all();
    } catch (const std::exception &failure) {
        complain(failure.what());
    }
}

/* Whatever hangs: what waits on a GPU ends with the process, or by its own patience. */
void watch(double seconds)
{
    std::thread([seconds] {
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
        printf("FAILED: not done after %.0f s\n", seconds);
        fflush(stdout);
        _exit(1);
    }).detach();
}

} // namespace

void must(CUresult result, const char *call, const char *file, int line)
{
    if (result)
        throw Failure(text("%s:%d: %s: %s", file, line, call, error_name(result).c_str()));
}

std::string error_name(CUresult result)
{
    const char *name = nullptr;
    return !cuGetErrorName(result, &name) && name ? name : text("error %d", (int)result);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--second"))
        return second_process(argc, argv);
    Options options = read_options(argc, argv);
    double began = now_us();
    watch(options.limit);
    try {
        start(options);
    } catch (const std::exception &failure) {
        fprintf(stderr, "gpu_limits: %s\n", failure.what());
        return 1;
    }
    bool saved = true;
    for (const Part *part : options.todo) {
        run_part(*part);
        saved = report_save(options.json, part == options.todo.back()) && saved;
    }
    if (!saved)
        fprintf(stderr, "gpu_limits: %s could not be written\n", options.json.c_str());
    int failed = report_complaints();
    printf("\n%s after %.1f s\n", failed ? text("%d checks or parts FAILED", failed).c_str() : "all went well",
           (now_us() - began) * 1e-6);
    fflush(stdout);
    _exit(failed || !saved); /* what may still wait on a GPU does not hold the end up */
}
