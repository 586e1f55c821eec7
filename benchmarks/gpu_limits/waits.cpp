/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_limits waits: which driver calls wait for what is under way, and whom they hold up meanwhile. */
#include "things.h"

#include "kernels.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

namespace
{

constexpr int LONG_MS = 200,
              PROBE_MS = 60; /* later than this a call counts as waiting; earlier others are tried beside it */

/* A call by a thread of its own, whose context is current before anything is under way. */
class Attempt
{
  public:
    Attempt(CUcontext context, std::function<CUresult()> call) : thread([this, context, call] { run(context, call); })
    {
        while (state == STARTING)
            std::this_thread::yield();
    }
    ~Attempt()
    {
        int was = READY;
        state.compare_exchange_strong(was, CANCELLED);
        thread.join();
    }
    void go()
    {
        state = GO;
    }
    bool done_by(double us) const
    {
        while (state != DONE && now_us() < us)
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        return state == DONE;
    }
    double us = 0;
    CUresult result = CUDA_SUCCESS;

  private:
    enum { STARTING, READY, GO, DONE, CANCELLED };
    void run(CUcontext context, const std::function<CUresult()> &call)
    {
        result = cuCtxSetCurrent(context);
        state = READY;
        while (state == READY)
            std::this_thread::yield();
        if (state == CANCELLED)
            return;
        double began = now_us();
        if (!result)
            result = call();
        us = now_us() - began;
        state = DONE;
    }
    std::atomic<int> state{STARTING};
    std::thread thread;
};

CUresult launch_nothing(const Gpu &gpu)
{
    Nothing nothing = {};
    void *params[] = {&nothing};
    return cuLaunchKernel(gpu.functions[NOTHING], 1, 1, 1, 32, 1, 1, 0, gpu.streams[2], params, nullptr);
}

/* What others do meanwhile. */
struct Probe {
    const char *name;
    std::unique_ptr<Attempt> attempt;
};

std::vector<Probe> make_probes()
{
    const Gpu &gpu = machine.gpus[0], &peer = gpu_after(gpu, 1);
    std::vector<Probe> probes;
    auto add = [&](const char *name, const Gpu &on, std::function<CUresult()> call) {
        probes.push_back({name, std::make_unique<Attempt>(on.context, std::move(call))});
    };
    add("launch", gpu, [&gpu] { return launch_nothing(gpu); });
    add("query", gpu, [&gpu] { return cuEventQuery(gpu.end); });
    if (gpu_count() > 1)
        add("launch on a peer", peer, [&peer] { return launch_nothing(peer); });
    return probes;
}

/* Where work is under way. */
enum Beside { STREAM, KERNEL, PEER, BESIDES };

class Busy
{
  public:
    Busy(Second *second, Beside beside) : second(second)
    {
        if (second)
            second->block(beside == KERNEL);
        else
            own = std::make_unique<Blocker>(machine.gpus[beside == PEER ? 1 : 0], beside != STREAM);
        set_current(machine.gpus[0]);
    }
    ~Busy()
    {
        try {
            if (second)
                second->release();
        } catch (const Failure &failure) {
            complain(failure.what());
        }
    }
    bool holds()
    {
        return !own || own->holds();
    }

  private:
    Second *second;
    std::unique_ptr<Blocker> own;
};

struct Outcome {
    bool waits = false;
    std::string cell, held; /* held: the others that did not get through */
};

/* A call that the driver does not offer is no failure. */
Outcome refused(const Trial &trial, CUresult result)
{
    if (result != CUDA_ERROR_NOT_SUPPORTED && result != CUDA_ERROR_NOT_PERMITTED)
        complain(std::string(trial.name) + ": " + error_name(result));
    return {false, error_name(result), ""};
}

Outcome judge(const Trial &trial, const Attempt &caller, bool waited)
{
    if (caller.result)
        return refused(trial, caller.result);
    return {waited, waited ? "WAITS" : text("%.2f ms", caller.us * 1e-3), ""};
}

Outcome attempt(const Trial &trial, Second *second, Beside beside)
{
    const Gpu &gpu = machine.gpus[0];
    std::string held;
    bool done;
    synchronize_all();
    set_current(gpu);
    CUresult prepared = trial.prepare ? trial.prepare() : CUDA_SUCCESS;
    if (prepared)
        return refused(trial, prepared);
    std::vector<Probe> probes = make_probes();
    Attempt caller(gpu.context, trial.act);
    {
        Busy busy(second, beside);
        double began = now_us(), until = began + LONG_MS * 1e3;
        caller.go();
        if (!caller.done_by(began + PROBE_MS * 1e3))
            for (Probe &probe : probes)
                probe.attempt->go();
        done = caller.done_by(until);
        for (Probe &probe : probes)
            if (!done && !probe.attempt->done_by(until) &&
                !probe.attempt->done_by(until + LONG_MS * 1e3)) /* its thread may have begun late */
                held += (held.empty() ? "" : ", ") + std::string(probe.name);
        if (done && !busy.holds())
            complain(std::string(trial.name) + ": what was under way ended by itself");
    }
    caller.done_by(1e300);
    Outcome outcome = judge(trial, caller, !done);
    outcome.held = held;
    return outcome;
}

/* One line of the table. */
std::vector<std::string> line(const Trial &trial, Second *second)
{
    std::vector<std::string> row = {trial.name};
    std::string others = "-";
    for (int beside = STREAM; beside < BESIDES; beside++) {
        if (beside == PEER && (gpu_count() < 2 || trial.flags & IN_SECOND)) {
            row.push_back("-");
            continue;
        }
        Outcome outcome;
        try {
            outcome = attempt(trial, trial.flags & IN_SECOND ? second : nullptr, (Beside)beside);
        } catch (const Failure &failure) {
            complain(failure.what());
            outcome.cell = "not tried";
        }
        things_sweep();
        if (trial.flags & MUST_WAIT && beside != PEER && !outcome.waits)
            complain(std::string(trial.name) +
                     " came back while work was under way: the rest of this table cannot be believed");
        row.push_back(outcome.cell);
        if (outcome.waits && others == "-")
            others = "yes";
        if (!outcome.held.empty())
            others = (others.rfind("no: ", 0) ? "no: " : others + "; ") + outcome.held;
    }
    row.push_back(others);
    return row;
}

} // namespace

void part_waits()
{
    const Gpu &gpu = machine.gpus[0];
    Table table = {
        text("Driver calls of GPU 0: milliseconds, or WAITS if not done within %d ms", LONG_MS),
        {"call", "beside a waiting stream", "beside a kernel", "beside a peer's kernel", "others get through"},
        {}};
    std::unique_ptr<Second> second;
    for (const Gpu &each : machine.gpus) {
        function_of(each, NOTHING);
        set_current(each);
        OK(cuEventRecord(each.end, each.streams[2]));
    }
    try {
        second = std::make_unique<Second>(gpu_after(gpu, 1).index);
    } catch (const Failure &failure) {
        complain(failure.what());
    }
    things_begin(second ? &second->memory : nullptr);
    for (const Trial &trial : trials())
        if ((!(trial.flags & NEEDS_SECOND) || second) && (!(trial.flags & NEEDS_PEER) || gpu_count() > 1))
            table.rows.push_back(line(trial, second.get()));
    things_end();
    report_table(table);
}
