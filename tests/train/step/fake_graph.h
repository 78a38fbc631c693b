// A fake of a device's graphs for the CPU. A capture records the operations and undoes their effect; a replay runs the
// step again and requires the recorded operations with the same numbers. So it finds values that a step computes on the
// host, such as a learning rate that is a number, which a real graph would repeat.
#pragma once

#include <ATen/Context.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/core/GradMode.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stoker/bridge/torch_cuda.h"
#include "stoker/models/model.h"
#include "stoker/train/step/forward_snapshot.h"

namespace stoker::testing {

// What this thread allocates during the guard's lifetime.
struct Allocations : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void* block, std::int64_t bytes, std::size_t /*all*/, std::size_t /*reserved*/,
                           c10::Device /*device*/) override {
        if (bytes > 0) {
            blocks.insert(block);
        }
    }
    bool memoryProfilingEnabled() const override { return true; }

    std::set<const void*> blocks;
};

// Records the outermost operations that the host calls during its lifetime: names and all arguments that are numbers,
// and the addresses of tensors that existed before. An imported model calls some kernels as functions, not operations:
// their results are known by their allocations.
class Recording {
  public:
    Recording() {
        current() = this;
        handle_ = at::addThreadLocalCallback(
            at::RecordFunctionCallback(on_start, on_end).needsInputs(true).needsOutputs(true));
    }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
    ~Recording() {
        at::removeCallback(handle_);
        current() = nullptr;
    }

    const std::vector<std::string>& operations() const { return operations_; }
    // Addresses of tensors that existed before.
    const std::set<const void*>& outside() const { return outside_; }

  private:
    static Recording*& current() {
        static thread_local Recording* recording = nullptr;
        return recording;
    }

    // The backward pass wraps operations in frames that are not operations.
    static bool counts(const at::RecordFunction& function) {
        return function.scope() == at::RecordScope::FUNCTION &&
               !std::string_view(function.name()).starts_with("autograd::engine");
    }

    static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
        Recording& recording = *current();
        if (counts(function) && recording.depth_++ == 0) {
            std::string line = function.name();
            for (const c10::IValue& input : function.inputs()) {
                line += " " + recording.text_of(input);
            }
            recording.operations_.push_back(std::move(line));
        }
        return nullptr;
    }

    // Tensors that an operation makes internally may be kept for the backward pass.
    static void on_end(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
        Recording& recording = *current();
        if (counts(function)) {
            --recording.depth_;
            for (const c10::IValue& output : function.outputs()) {
                recording.note_output(output);
            }
        }
    }

    std::string text_of(const c10::IValue& value) {
        if (value.isTensor()) {
            return text_of(value.toTensor());
        }
        if (value.isDouble()) {
            return fmt::format("{:a}", value.toDouble());
        }
        if (value.isInt() || value.isBool()) {
            return value.isInt() ? fmt::to_string(value.toInt()) : fmt::to_string(value.toBool());
        }
        if (value.isList()) {
            std::string text = "[";
            for (const c10::IValue& item : value.toListRef()) {
                text += text_of(item) + ",";
            }
            return text + "]";
        }
        return value.isString() ? value.toStringRef() : value.tagKind();
    }

    std::string text_of(const at::Tensor& tensor) {
        if (!tensor.defined()) {
            return "no tensor";
        }
        if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {  // a number that an operator turned into a tensor
            const bool whole = tensor.scalar_type() == at::kLong;
            return whole ? fmt::to_string(*tensor.const_data_ptr<std::int64_t>())
                         : fmt::format("{:a}", *tensor.const_data_ptr<double>());
        }
        const void* memory = tensor.storage().data();
        if (own_.contains(memory) || (allocations_->blocks.contains(memory) && !outside_.contains(memory))) {
            return "tensor";
        }
        outside_.insert(memory);
        return fmt::format("tensor at {}", memory);
    }

    void note_output(const c10::IValue& value) {
        if (value.isTensor() && value.toTensor().defined()) {
            const void* memory = value.toTensor().storage().data();
            if (!outside_.contains(memory)) {
                own_.insert(memory);
            }
        } else if (value.isList()) {
            for (const c10::IValue& item : value.toListRef()) {
                note_output(item);
            }
        }
    }

    std::shared_ptr<Allocations> allocations_ = std::make_shared<Allocations>();
    c10::DebugInfoGuard watch_{c10::DebugInfoKind::PROFILER_STATE, allocations_};
    at::CallbackHandle handle_ = 0;
    int depth_ = 0;
    std::vector<std::string> operations_;
    std::set<const void*> own_;
    std::set<const void*> outside_;
};

struct FakeCalls {
    int captures = 0;
    int replays = 0;
    std::set<const void*> outside = {};  // addresses of tensors that existed before the last capture
};

class FakeGraphs final : public DeviceGraphs {
  public:
    // `state`: all tensors that the recorded work changes, which are restored. `draws_on_host`: the random generator is
    // not restored, as if the work drew from the host's instead of the device's.
    FakeGraphs(std::function<std::vector<NamedTensor>()> state, FakeCalls& calls, bool draws_on_host)
        : state_(std::move(state)), calls_(calls), draws_on_host_(draws_on_host) {}

    void capture(const std::function<void()>& work) override {
        const c10::NoGradGuard no_grad;
        ++calls_.captures;
        std::vector<at::Tensor> before;
        for (const NamedTensor& entry : state_()) {
            before.push_back(entry.tensor.clone());
        }
        const at::Generator draws = at::globalContext().defaultGenerator(at::kCPU);
        const at::Tensor drawn = generator_state(draws);
        const auto restore = [&] {
            if (!draws_on_host_) {
                set_generator_state(draws, drawn);
            }
            const std::vector<NamedTensor> state = state_();
            for (std::size_t i = 0; i < state.size(); ++i) {
                state[i].tensor.copy_(before[i]);
            }
        };
        const Recording recording;
        try {
            const c10::AutoGradMode record(true);
            work();
        } catch (...) {
            restore();
            throw;
        }
        graphs_.push_back({work, recording.operations()});
        calls_.outside = recording.outside();
        restore();
    }

    void replay(std::size_t number) override {
        ++calls_.replays;
        const Recording recording;
        const auto& [work, recorded] = graphs_.at(number);
        work();
        ASSERT_EQ(recording.operations().size(), recorded.size());
        for (std::size_t i = 0; i < recorded.size(); ++i) {
            ASSERT_EQ(recording.operations()[i], recorded[i]) << "a graph would repeat the recorded operation";
        }
    }

    void clear() override { graphs_.clear(); }

  private:
    struct Graph {
        std::function<void()> work;
        std::vector<std::string> recorded;  // operations
    };

    std::function<std::vector<NamedTensor>()> state_;
    FakeCalls& calls_;
    bool draws_on_host_;
    std::vector<Graph> graphs_;
};

}  // namespace stoker::testing
