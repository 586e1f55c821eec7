/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_limits: what its parts share: the GPUs, their kernels, time, tables. */
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

constexpr size_t KIB = 1 << 10, MIB = 1 << 20;
constexpr int GPUS_MOST = 4, STREAMS = 4;
constexpr uint64_t PATIENCE_NS = 2000000000; /* no kernel waits longer */
constexpr size_t WORDS = MIB, HOST_WORDS = 4096;

struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

void must(CUresult result, const char *call, const char *file, int line);
#define OK(call) must((call), #call, __FILE__, __LINE__)
std::string error_name(CUresult result);

/* The order of kernel_names in load.cpp. */
enum Kernel { SPIN, FILL, CHECK, MOVE, BULK, FLAGS, PACKETS, FENCE, MEET, BARRIER, NOTHING, KERNELS };
extern const char *const kernel_names[KERNELS];

struct Gpu {
    int index;
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction functions[KERNELS];
    CUdeviceptr in, out, words; /* words: WORDS bytes of flags and results */
    CUstream streams[STREAMS];
    CUevent begin, end, done[STREAMS];
};

struct Machine {
    std::vector<Gpu> gpus;
    std::vector<char> image;  /* the kernels as the driver loads them */
    size_t most = 256 * MIB;  /* the longest copy */
    uint32_t *host = nullptr; /* HOST_WORDS bytes of pinned memory that all GPUs see at this address, too */
    std::string name;
    int driver = 0;
    bool bulk = false; /* bulk copies of shared memory */
};
extern Machine machine;

inline int gpu_count()
{
    return (int)machine.gpus.size();
}

inline Gpu &gpu_after(const Gpu &gpu, int steps)
{
    return machine.gpus[(gpu.index + steps) % gpu_count()];
}

CUdeviceptr host_word(int at); /* 64 bytes apart */
uint32_t *host_pointer(int at);
void set_current(const Gpu &gpu);
void synchronize_all();

/* ---- load.cpp ---- */
std::vector<char> load_image(); /* of this program's kernels */
void load_kernels(Gpu &gpu);
CUfunction function_of(const Gpu &gpu, Kernel kernel);

template <class... A>
void launch(const Gpu &gpu, Kernel kernel, unsigned blocks, unsigned threads, CUstream stream, unsigned shared,
            A... values)
{
    void *params[] = {&values...};
    OK(cuLaunchKernel(function_of(gpu, kernel), blocks, 1, 1, threads, 1, 1, shared, stream, params, nullptr));
}

/* ---- gate.cpp ---- */

/* Holds streams back until all is queued. A kernel waits in them and gives up by itself: a full queue cannot hold the
 * host for ever. */
class Gate
{
  public:
    explicit Gate(int word = 0);
    ~Gate();
    Gate(const Gate &) = delete;
    Gate &operator=(const Gate &) = delete;
    void close(const Gpu &gpu, CUstream stream);
    void open();

  private:
    int word;
};

/* Work under way on a GPU, in a stream that nothing else uses, until this object goes: a stream that waits for host
 * memory, or a kernel that does. */
class Blocker
{
  public:
    Blocker(const Gpu &gpu, bool kernel);
    ~Blocker();
    bool holds(); /* it still does */

  private:
    static constexpr int WORD = 2;
    const Gpu &gpu;
    Gate gate;
};

/* Runs what queue(gpu) puts into the first `streams` streams of each GPU: all begin when all is queued. Microseconds of
 * each GPU. */
std::vector<double> together(int streams, const std::function<void(Gpu &)> &queue);

/* Numbers that tell where they come from, in `in` of all GPUs. What `moved` names must then be found in `out` of the
 * second, in the first one's place. */
using Pairs = std::set<std::pair<int, int>>;
void fill_all(size_t bytes);
void clear_all(size_t bytes);
void check_moved(const std::string &what, const Pairs &moved, size_t bytes);
CUdeviceptr place(const Gpu &to, const Gpu &from);

double now_us();
double median(std::vector<double> values);
double mean(const std::vector<double> &values);

/* ---- report.cpp ---- */
struct Table {
    std::string title;
    std::vector<std::string> heads;
    std::vector<std::vector<std::string>> rows;
};

std::string text(const char *format, ...) __attribute__((format(printf, 1, 2)));
void report_part(const std::string &name);
void report_table(const Table &table); /* prints it, and keeps it for the JSON */
void report_note(const std::string &note);
void complain(const std::string &sentence); /* a check has failed: the exit status will be 1 */
int report_complaints();
bool report_save(const std::string &path, bool complete);

/* ---- the parts ---- */
void part_copies();
void part_stores();
void part_latency();
void part_calls();
void part_waits();

/* ---- second.cpp ---- */

/* A process of its own with memory on a GPU, and with a blocker there at will. */
class Second
{
  public:
    explicit Second(int ordinal);
    ~Second();
    Second(const Second &) = delete;
    Second &operator=(const Second &) = delete;
    void block(bool kernel);
    void release();
    CUipcMemHandle memory = {};

  private:
    void ask(char command);
    void end();
    int to = -1, from = -1, pid = -1;
};

int second_process(int argc, char **argv); /* what it runs */
