#include "stoker/pipeline/worker_threads.h"

#include <chrono>
#include <ctime>
#include <fmt/format.h>
#include <system_error>

#include "stoker/base/error.h"

namespace stoker {
namespace {

std::chrono::nanoseconds thread_cpu_time() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// Reads the thread's CPU clock at most every 5 ms: it is a system call, which short tasks would feel.
class CpuClock {
  public:
    void add_to(StageTimes& times, StageTime now, bool last) {
        if (now == StageTime{} || (!last && now - read_ < std::chrono::milliseconds(5))) {
            return;
        }
        const std::chrono::nanoseconds used = thread_cpu_time();
        times.cpu += used - used_;
        used_ = used;
        read_ = now;
    }

  private:
    std::chrono::nanoseconds used_ = thread_cpu_time();
    StageTime read_ = std::chrono::steady_clock::now();
};

}  // namespace

void WorkerThreads::resize(int threads, BatchRing& ring) {
    ring.set_workers(threads);
    while (size() > threads) {
        workers_.back()->thread.join();
        finished_ += workers_.back()->times;
        workers_.pop_back();
    }
    while (size() < threads) {
        const int id = size();
        workers_.push_back(std::make_unique<Worker>());
        Worker& worker = *workers_.back();
        try {
            worker.thread = std::thread([this, id, &ring, &worker] { work(id, ring, worker); });
        } catch (const std::system_error& error) {
            workers_.pop_back();
            throw IoError({.where = "data.workers",
                           .expected = fmt::format("{} threads", threads),
                           .got = fmt::format("{}: {}", id, errno_text(error.code().value())),
                           .hint = "lower data.workers, or raise the limit on threads (ulimit -u)"});
        }
    }
}

void WorkerThreads::work(int id, BatchRing& ring, Worker& worker) {
    CpuClock cpu;
    // The clock is read twice a task: a task of small samples takes microseconds.
    StageTime since = stage_now();
    for (;;) {
        StageTimes times;
        const auto task = ring.take(id);
        StageTime now = stage_now();
        times[Stage::blocked] += stage_time(since, now);
        if (task) {
            now = run(id, *task, ring, worker.buffers, now, times);
        }
        cpu.add_to(times, now, !task);
        since = now;
        const std::lock_guard lock(worker.mutex);
        worker.times += times;
        if (!task) {
            return;
        }
    }
}

StageTime WorkerThreads::run(int id, const RingTask& task, BatchRing& ring, WorkerBuffers& buffers, StageTime begin,
                             StageTimes& times) {
    const std::shared_ptr<WorkLog> log = this->log();
    if (log == nullptr) {
        return fill_(task, buffers, begin, times);
    }
    const auto began = std::chrono::steady_clock::now();
    StageTimes own;
    const StageTime end = fill_(task, buffers, begin, own);
    log->add({.worker = id,
              .batch = task.sequence,
              .begin = task.begin,
              .end = task.end,
              .began = began,
              .ended = std::chrono::steady_clock::now(),
              .times = own,
              .ready = ring.finished()});
    times += own;
    return end;
}

void WorkerThreads::set_log(std::shared_ptr<WorkLog> log) {
    const std::lock_guard lock(log_mutex_);
    log_ = std::move(log);
    logs_ = log_ != nullptr;
}

std::shared_ptr<WorkLog> WorkerThreads::log() {
    if (!logs_.load(std::memory_order_relaxed)) {
        return nullptr;
    }
    const std::lock_guard lock(log_mutex_);
    return log_;
}

StageTimes WorkerThreads::times() const {
    StageTimes sum = finished_;
    for (const auto& worker : workers_) {
        const std::lock_guard lock(worker->mutex);
        sum += worker->times;
    }
    return sum;
}

}  // namespace stoker
