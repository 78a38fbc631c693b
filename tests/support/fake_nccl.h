// Stands in for NCCL: ranks are threads of one test, and tensors are on the CPU. It keeps NCCL's rules: messages
// between two ranks of a communicator run one after the other, each until it is received, unless they belong to one
// coalesced group; and a failed collective is only known to those who ask.
#pragma once

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "stoker/dist/nccl.h"

namespace stoker::testing {

class FakeWork : public c10d::Work {
  public:
    explicit FakeWork(std::vector<at::Tensor> result, std::shared_future<void> done = {})
        : done_(std::move(done)),
          future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {
        future_->markCompleted(at::IValue(std::move(result)));
    }
    // With NCCL the device waits, and not the host.
    bool wait(std::chrono::milliseconds /*timeout*/) override {
        if (done_.valid()) {
            done_.get();
        }
        return true;
    }
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  private:
    std::shared_future<void> done_;
    c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// Shared by the ranks of one communicator.
class FakeCommunicator {
  public:
    struct Part {
        std::vector<at::Tensor> inputs;
        std::vector<at::Tensor> outputs;
    };

    explicit FakeCommunicator(int size) : parts_(static_cast<std::size_t>(size)) {}

    // All ranks meet; the last one to come works for all.
    void meet(int rank, Part part, const std::function<void(std::vector<Part>&)>& work) {
        std::unique_lock lock(mutex_);
        parts_[static_cast<std::size_t>(rank)] = std::move(part);
        const int round = round_;
        if (++here_ == static_cast<int>(parts_.size())) {
            const c10::NoGradGuard no_grad;
            work(parts_);
            here_ = 0;
            ++round_;
            changed_.notify_all();
            return;
        }
        wait(lock, [&] { return round_ != round; });
    }

    // Returns when the message has been received; with `wait_taken` false at once.
    void send(int from, int to, const at::Tensor& tensor, bool wait_taken) {
        std::unique_lock lock(mutex_);
        std::vector<at::Tensor>& box = boxes_[{from, to}];
        box.push_back(tensor.clone());
        const std::size_t mine = ++sent_[{from, to}];
        changed_.notify_all();
        if (wait_taken) {
            wait(lock, [&] { return taken_[{from, to}] >= mine; });
        }
    }

    void receive(int from, int to, const at::Tensor& tensor) {
        std::unique_lock lock(mutex_);
        std::vector<at::Tensor>& box = boxes_[{from, to}];
        wait(lock, [&] { return !box.empty(); });
        tensor.copy_(box.front());
        box.erase(box.begin());
        ++taken_[{from, to}];
        changed_.notify_all();
    }

  private:
    void wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done) {
        if (!changed_.wait_for(lock, std::chrono::seconds(10), done)) {
            throw std::runtime_error("fake NCCL: another rank never came");
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Part> parts_;
    int here_ = 0;
    int round_ = 0;
    std::map<std::pair<int, int>, std::vector<at::Tensor>> boxes_;
    std::map<std::pair<int, int>, std::size_t> sent_;
    std::map<std::pair<int, int>, std::size_t> taken_;
};

// A log of the work of all fake backends of a test.
struct FakeNcclLog {
    std::mutex mutex = {};
    std::map<std::string, std::shared_ptr<FakeCommunicator>> communicators = {};
    std::vector<std::string> calls = {};  // of all ranks
    std::int64_t good_calls = -1;         // the ones after them fail; -1: none does
    c10d::ErrorType error = c10d::ErrorType::SUCCESS;
    int aborted = 0;

    std::int64_t count(const std::string& call) {
        const std::lock_guard lock(mutex);
        return std::ranges::count(calls, call);
    }
};

class FakeNccl : public c10d::Backend {
  public:
    FakeNccl(const NcclRequest& request, FakeNcclLog& log)
        : Backend(request.rank, request.size), log_(log), device_(request.device) {
        const std::lock_guard lock(log.mutex);
        // The first to come names the communicator.
        const std::string name = std::to_string(log.communicators.size());
        const std::vector<std::uint8_t> chosen = request.store->compareSet(
            "communicator", std::vector<std::uint8_t>{}, std::vector<std::uint8_t>(name.begin(), name.end()));
        std::shared_ptr<FakeCommunicator>& shared = log.communicators[std::string(chosen.begin(), chosen.end())];
        if (!shared) {
            shared = std::make_shared<FakeCommunicator>(request.size);
        }
        shared_ = shared;
    }

    const std::string getBackendName() const override { return "nccl"; }  // NOLINT(readability-const-return-type)
    bool supportsCoalescing() const override { return true; }
    c10d::ErrorType getError() override {
        const std::lock_guard lock(log_.mutex);
        return log_.error;
    }
    void abort() override {
        const std::lock_guard lock(log_.mutex);
        ++log_.aborted;
    }
    c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                             const c10d::AllreduceOptions& options) override {
        if (options.reduceOp != c10d::ReduceOp::SUM) {
            throw std::runtime_error("fake NCCL: only sums go between GPUs");
        }
        return together("allreduce", {tensors, {}}, [](std::vector<FakeCommunicator::Part>& parts) {
            for (std::size_t t = 0; t < parts[0].inputs.size(); ++t) {
                at::Tensor sum = parts[0].inputs[t].clone();
                for (std::size_t rank = 1; rank < parts.size(); ++rank) {
                    sum.add_(parts[rank].inputs[t]);
                }
                for (FakeCommunicator::Part& part : parts) {
                    part.inputs[t].copy_(sum);
                }
            }
        });
    }

    c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                             const c10d::BroadcastOptions& options) override {
        return together("broadcast", {tensors, {}}, [root = options.rootRank](auto& parts) {
            for (FakeCommunicator::Part& part : parts) {
                for (std::size_t t = 0; t < part.inputs.size(); ++t) {
                    part.inputs[t].copy_(parts[static_cast<std::size_t>(root)].inputs[t].clone());
                }
            }
        });
    }

    c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                             std::vector<at::Tensor>& inputs,
                                             const c10d::AllgatherOptions& /*options*/) override {
        return together("allgather", {inputs, outputs.at(0)}, gather);
    }

    c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                   const c10d::AllgatherOptions& /*options*/) override {
        return together("allgather", {{input}, output.chunk(getSize())}, gather);
    }

    c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                        const c10d::ReduceScatterOptions& /*options*/) override {
        return together("reduce_scatter", {input.chunk(getSize()), {output}}, [](auto& parts) {
            for (std::size_t rank = 0; rank < parts.size(); ++rank) {
                parts[rank].outputs[0].zero_();
                for (const FakeCommunicator::Part& part : parts) {
                    parts[rank].outputs[0].add_(part.inputs[rank]);
                }
            }
        });
    }

    void startCoalescing() override { coalescing_ = true; }

    c10::intrusive_ptr<c10d::Work> endCoalescing() override {
        coalescing_ = false;
        for (const auto& [to, tensor] : std::exchange(outgoing_, {})) {
            shared_->send(getRank(), to, tensor, /*wait_taken=*/false);
        }
        for (const auto& [from, tensor] : std::exchange(incoming_, {})) {
            shared_->receive(from, getRank(), tensor);
        }
        return c10::make_intrusive<FakeWork>(std::vector<at::Tensor>());
    }

    c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int /*tag*/) override {
        check("send", tensors);
        if (coalescing_) {
            outgoing_.emplace_back(to, tensors.at(0));
            return c10::make_intrusive<FakeWork>(tensors);
        }
        return queue(to, tensors, [this, to, tensor = tensors.at(0)] { shared_->send(getRank(), to, tensor, true); });
    }

    c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from, int /*tag*/) override {
        check("recv", tensors);
        if (coalescing_) {
            incoming_.emplace_back(from, tensors.at(0));
            return c10::make_intrusive<FakeWork>(tensors);
        }
        return queue(from, tensors,
                     [this, from, tensor = tensors.at(0)] { shared_->receive(from, getRank(), tensor); });
    }

  private:
    // Messages between two ranks of a communicator have one stream.
    c10::intrusive_ptr<c10d::Work> queue(int peer, const std::vector<at::Tensor>& tensors, std::function<void()> work) {
        std::shared_future<void>& last = streams_[peer];
        last = std::async(std::launch::async, [before = last, work = std::move(work)] {
                   if (before.valid()) {
                       before.wait();
                   }
                   const c10::InferenceMode in_evaluation_too;
                   work();
               }).share();
        return c10::make_intrusive<FakeWork>(tensors, last);
    }

    static void gather(std::vector<FakeCommunicator::Part>& parts) {
        for (FakeCommunicator::Part& part : parts) {
            for (std::size_t rank = 0; rank < parts.size(); ++rank) {
                part.outputs[rank].view_as(parts[rank].inputs[0]).copy_(parts[rank].inputs[0]);
            }
        }
    }

    void require_here(const std::vector<at::Tensor>& tensors) const {
        for (const at::Tensor& tensor : tensors) {
            if (tensor.device() != device_ || !tensor.is_contiguous()) {
                throw std::runtime_error("fake NCCL: a tensor is elsewhere, or not contiguous");
            }
        }
    }

    void check(const char* call, const std::vector<at::Tensor>& tensors) {
        require_here(tensors);
        const std::lock_guard lock(log_.mutex);
        log_.calls.emplace_back(call);
        if (log_.good_calls >= 0 && std::ssize(log_.calls) > log_.good_calls) {
            log_.error = c10d::ErrorType::TIMEOUT;
        }
    }

    c10::intrusive_ptr<c10d::Work> together(const char* call, const FakeCommunicator::Part& part,
                                            const std::function<void(std::vector<FakeCommunicator::Part>&)>& work) {
        check(call, part.inputs);
        require_here(part.outputs);
        shared_->meet(getRank(), part, work);
        return c10::make_intrusive<FakeWork>(part.outputs.empty() ? part.inputs : part.outputs);
    }

    FakeNcclLog& log_;
    at::Device device_;
    std::shared_ptr<FakeCommunicator> shared_;
    std::map<int, std::shared_future<void>> streams_;
    bool coalescing_ = false;
    std::vector<std::pair<int, at::Tensor>> outgoing_;
    std::vector<std::pair<int, at::Tensor>> incoming_;
};

// During its lifetime a group whose ranks have one GPU each gets this.
class FakeNcclLibrary {
  public:
    FakeNcclLog log = {};

  private:
    ReplacedNccl replaced_{[this](const NcclRequest& request) { return c10::make_intrusive<FakeNccl>(request, log); }};
};

}  // namespace stoker::testing
