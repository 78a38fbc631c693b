// A Loader that Python owns: its calls release the interpreter's lock, are taken one at a time, and are refused after
// `close` and in a forked child.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "python/src/bindings.h"
#include "stoker/pipeline/loader.h"

namespace stoker::python {

class LoaderHandle {
  public:
    LoaderHandle(std::shared_ptr<const Dataset> dataset, Transform transform, const LoaderOptions& options);
    LoaderHandle(const LoaderHandle&) = delete;
    LoaderHandle& operator=(const LoaderHandle&) = delete;
    ~LoaderHandle();

    // Loader::next. Handlers of signals run while it waits, and their exceptions end it.
    std::shared_ptr<Batch> next();
    // The position as a JSON document, and back.
    std::string state();
    void restore(const std::string& state);

    std::int64_t batches() const { return batches_; }
    int workers() const { return workers_; }
    const std::vector<std::string>& fields() const { return fields_; }  // names of a batch's fields

    // Ends the threads. Batches that are held stay valid.
    void close();

  private:
    // Runs `call` with the loader, without the interpreter's lock.
    template <typename Call>
    auto locked(const Call& call);

    OwnProcess process_;
    std::mutex mutex_;  // guards loader_; taken without the interpreter's lock
    std::unique_ptr<Loader> loader_;
    std::atomic<bool> closing_ = false;
    std::int64_t batches_;
    int workers_;
    std::vector<std::string> fields_;
};

// A batch that arrays of Python hold.
struct HeldBatch {
    std::shared_ptr<Batch> batch;
    OwnProcess process = {};

    // Releases the batch with the last array. In a forked child it stays: the ring's lock may be held for ever.
    static nb::capsule capsule(std::shared_ptr<Batch> batch);
};

}  // namespace stoker::python
