// The threads that fill a loader's batches. Each has its own buffers and keeps the times of its stages.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "stoker/pipeline/loader_fields.h"
#include "stoker/pipeline/ring.h"
#include "stoker/pipeline/work_log.h"
#include "stoker/records/stages.h"

namespace stoker {

struct WorkerBuffers {
    SampleScratch scratch;
    StageSampler stages;
};

class WorkerThreads {
  public:
    // Fills a task's samples and adds to `times`. Begins at `begin` and returns when they were ready, by stage_now().
    using Fill =
        std::function<StageTime(const RingTask& task, WorkerBuffers& buffers, StageTime begin, StageTimes& times)>;

    explicit WorkerThreads(Fill fill) : fill_(std::move(fill)) {}

    // Waits for threads that end, or starts new ones, which take tasks from this ring. Throws IoError if the system
    // gives no further thread.
    void resize(int threads, BatchRing& ring);
    int size() const { return static_cast<int>(workers_.size()); }
    // Does a task in the caller's thread, as a loader without threads does.
    void run_here(const RingTask& task, BatchRing& ring) {
        run(WorkSpan::kTrainingThread, task, ring, own_, stage_now(), finished_);
    }
    // The buffers of the caller's thread.
    WorkerBuffers& own() { return own_; }

    // The sum over all threads since the beginning.
    StageTimes times() const;

    // The threads log their tasks there; null: nowhere.
    void set_log(std::shared_ptr<WorkLog> log);
    std::shared_ptr<WorkLog> log();

  private:
    struct Worker {
        std::thread thread;
        WorkerBuffers buffers;  // allocated by the caller's thread, so that it sees a failure
        std::mutex mutex;       // guards times
        StageTimes times;
    };

    void work(int id, BatchRing& ring, Worker& worker);
    StageTime run(int id, const RingTask& task, BatchRing& ring, WorkerBuffers& buffers, StageTime begin,
                  StageTimes& times);

    const Fill fill_;
    std::vector<std::unique_ptr<Worker>> workers_;
    WorkerBuffers own_;
    StageTimes finished_;             // of threads that have ended, and of the caller's
    std::atomic<bool> logs_ = false;  // log_ is not null; read before each task, so that no log costs no lock
    std::mutex log_mutex_;            // guards log_
    std::shared_ptr<WorkLog> log_;
};

}  // namespace stoker
