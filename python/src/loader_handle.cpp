// Locks are always taken in one order: first the interpreter's lock is released, then mutex_ is taken.
#include "python/src/loader_handle.h"

#include <fmt/format.h>

#include "python/src/interruptible.h"
#include "stoker/base/error.h"

namespace stoker::python {

LoaderHandle::LoaderHandle(std::shared_ptr<const Dataset> dataset, Transform transform, const LoaderOptions& options)
    : loader_(std::make_unique<Loader>(std::move(dataset), std::move(transform), options)),
      batches_(loader_->batches_per_epoch()),
      workers_(loader_->workers()) {
    const int ranks = loader_->batch_sampler().options().world_size;
    const std::int64_t least = loader_->batch_sampler().smallest();
    if (least < ranks) {  // a loss of no samples is NaN
        const bool by_length = loader_->options().buckets != nullptr;
        throw InvalidArgument(
            {.where = by_length ? "batch_tokens" : "batch_size",
             .expected = fmt::format("a sample for each of {} ranks in {} batch of an epoch", ranks,
                                     by_length ? "every" : "the last"),
             .got = fmt::to_string(least),
             .hint = by_length ? "set drop_last=True; batch_tokens of at least the longest sample for each rank"
                               : "set drop_last=True, or another batch_size"});
    }
    for (const FieldSpec& spec : loader_->field_specs()) {
        fields_.push_back(spec.name);
    }
}

LoaderHandle::~LoaderHandle() {
    if (process_.here()) {
        close();
    } else {
        loader_.release();  // NOLINT(bugprone-unused-return-value): its threads are the parent's
    }
}

template <typename Call>
auto LoaderHandle::locked(const Call& call) {
    if (!process_.here()) {
        throw InvalidArgument({.where = "loader",
                               .expected = "the process that made it",
                               .got = "a forked child, which has none of its threads",
                               .hint = "make the loader in the child"});
    }
    const nb::gil_scoped_release release;
    const std::lock_guard lock(mutex_);
    if (loader_ == nullptr) {
        throw InvalidArgument({.where = "loader", .expected = "an open loader", .got = "one that was closed"});
    }
    return call(*loader_);
}

std::shared_ptr<Batch> LoaderHandle::next() {
    for (;;) {
        std::shared_ptr<Batch> batch;
        const bool ready = locked([&](Loader& loader) {
            const bool now = closing_ || loader.wait_for(kSignalPoll);
            if (now && !closing_) {
                batch = loader.next();
            }
            return now;
        });
        if (ready && !closing_) {
            return batch;
        }
        if (PyErr_CheckSignals() != 0) {
            throw nb::python_error();
        }
    }
}

std::string LoaderHandle::state() {
    return locked([](Loader& loader) { return to_json(loader.state()); });
}

void LoaderHandle::restore(const std::string& state) {
    locked([&](Loader& loader) { loader.restore(loader_state_from_json(state)); });
}

void LoaderHandle::close() {
    if (!process_.here()) {
        return;
    }
    closing_ = true;
    const nb::gil_scoped_release release;
    const std::lock_guard lock(mutex_);
    loader_.reset();
}

nb::capsule HeldBatch::capsule(std::shared_ptr<Batch> batch) {
    auto held = std::make_unique<HeldBatch>(std::move(batch));
    nb::capsule owner(held.get(), [](void* pointer) noexcept {
        auto* own = static_cast<HeldBatch*>(pointer);
        if (own->process.here()) {
            delete own;
        }
    });
    held.release();  // NOLINT(bugprone-unused-return-value): the capsule owns it
    return owner;
}

}  // namespace stoker::python
