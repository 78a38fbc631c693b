// A fake of a device's streams, on the host's memory. It copies at once, and records who touches which memory and in
// which order: each access must come after all earlier ones that it conflicts with, by the order of a stream, by an
// event, or by a wait of the host. So it finds a missing order whatever the timing. The order is kept in vector clocks
// (Lamport 1978, Mattern 1989), with one entry each for the host and the two streams.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "stoker/bridge/device_streams.h"

namespace stoker::testing {

// A mistake that the fake makes on purpose.
enum class Planted : std::uint8_t {
    copies_do_not_wait,  // for the steps that use a slot
    steps_do_not_wait,   // for the copy of their batch
    host_does_not_wait,
    used_is_not_recorded,
};

class FakeStreams final : public DeviceStreams {
  public:
    explicit FakeStreams(std::set<Planted> planted = {}) : planted_(std::move(planted)) {}

    at::Tensor allocate(std::int64_t bytes) override {
        TORCH_CHECK_WITH(OutOfMemoryError, log_->allocations < room, "CUDA out of memory");
        ++log_->allocations;
        const at::Tensor memory = at::empty({bytes}, at::kByte);
        log_->memory.push_back(memory);  // no other gets this address, so that late accesses are recognised
        const void* const address = memory.data_ptr();
        // What had this memory before was used by steps, and what gets it next will be.
        log_->touch(kSteps, address, /*write=*/true, "an earlier step's use");
        return at::from_blob(
            memory.data_ptr(), {bytes},
            [log = log_, address](void*) { log->touch(kSteps, address, /*write=*/true, "the release of a slot"); },
            at::TensorOptions().dtype(at::kByte));
    }

    void copy(const at::Tensor& to, const at::Tensor& from, bool /*pinned*/) override {
        log_->touch_all(kCopies, from, /*write=*/false, "the read of a copy");
        log_->touch_all(kCopies, to, /*write=*/true, "the write of a copy");
        ++copies;
        to.copy_(from);
    }

    void make_images(const DeferredImages& images) override {
        log_->touch(kCopies, images.memory, /*write=*/true, "the decoding of images");
        log_->touch(kCopies, images.out, /*write=*/true, "the write of images");
        stoker::make_images(images);
    }

    // From now on the device answers nothing but its error.
    void lose() { log_->lost = true; }

    std::unique_ptr<StreamEvent> make_event() override {
        return std::make_unique<Event>(log_, planted_.contains(Planted::host_does_not_wait));
    }

    void record(StreamEvent& event, WorkStream stream) override {
        log_->require_device();
        const bool forgotten = planted_.contains(Planted::used_is_not_recorded) && stream == WorkStream::steps;
        if (!forgotten) {
            log_->begin(agent(stream));
            static_cast<Event&>(event).at = log_->clocks[agent(stream)];
        }
    }

    void wait(WorkStream stream, const StreamEvent& event) override {
        const bool forgotten =
            planted_.contains(stream == WorkStream::steps ? Planted::steps_do_not_wait : Planted::copies_do_not_wait);
        if (const auto& at = static_cast<const Event&>(event).at; at && !forgotten) {
            log_->join(agent(stream), *at);
        }
    }

    // A step that reads these tensors.
    void step(const std::vector<at::Tensor>& tensors) {
        for (const at::Tensor& tensor : tensors) {
            log_->touch(kSteps, tensor.data_ptr(), /*write=*/false, "the read of a step");
        }
        log_->steps.push_back(log_->clocks[kSteps][kSteps]);
    }

    // The host writes, or frees, memory that copies read.
    void host_write(const void* address, const std::string& what) { log_->touch(kHost, address, /*write=*/true, what); }

    // Accesses without an order: "the write of a copy before the read of a step".
    const std::vector<std::string>& faults() const { return log_->faults; }
    std::int64_t allocations() const { return log_->allocations; }
    // Steps that are queued and may still run, as far as the host knows.
    std::int64_t steps_ahead() const {
        return std::ranges::count_if(log_->steps, [&](std::int64_t at) { return at > log_->clocks[kHost][kSteps]; });
    }

    std::int64_t copies = 0;  // so far
    // Allocations that fit into the device's memory.
    std::int64_t room = std::numeric_limits<std::int64_t>::max();

    // True: the device is done with everything whenever it is asked. False: it never is before the host waits.
    void set_fast(bool fast) { log_->fast = fast; }

  private:
    static constexpr std::size_t kHost = 0, kSteps = 1, kCopies = 2;
    using Clock = std::array<std::int64_t, 3>;

    static std::size_t agent(WorkStream stream) { return stream == WorkStream::steps ? kSteps : kCopies; }

    struct Access {
        std::size_t agent;
        std::int64_t at;
        std::string what;
    };
    struct Log {
        std::array<Clock, 3> clocks{};
        std::map<const void*, std::vector<Access>> writes;
        std::map<const void*, std::vector<Access>> reads;
        std::vector<at::Tensor> memory;
        std::vector<std::int64_t> steps;
        std::vector<std::string> faults;
        std::int64_t allocations = 0;
        bool fast = false;
        bool lost = false;

        void require_device() const {
            if (lost) {
                throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, 719, "CUDA error: launch failure");
            }
        }
        void join(std::size_t agent, const Clock& other) {
            for (std::size_t i = 0; i < other.size(); ++i) {
                clocks[agent][i] = std::max(clocks[agent][i], other[i]);
            }
        }
        // The next piece of work of `agent`: a stream begins it after the host has queued it.
        void begin(std::size_t agent) {
            join(agent, clocks[kHost]);
            ++clocks[agent][agent];
        }
        void touch(std::size_t agent, const void* address, bool write, const std::string& what) {
            begin(agent);
            require_after(agent, writes[address], what);
            if (write) {
                require_after(agent, reads[address], what);
            }
            (write ? writes : reads)[address].push_back({agent, clocks[agent][agent], what});
        }
        // The tensor's beginning, and all addresses within it that were touched before: one copy may move all fields.
        void touch_all(std::size_t agent, const at::Tensor& tensor, bool write, const std::string& what) {
            const auto* const begin = static_cast<const std::byte*>(tensor.data_ptr());
            std::set<const void*> within = {begin};
            for (const auto* known : {&writes, &reads}) {
                const auto end = known->lower_bound(begin + tensor.nbytes());
                for (auto at = known->upper_bound(begin); at != end; ++at) {
                    within.insert(at->first);
                }
            }
            for (const void* address : within) {
                touch(agent, address, write, what);
            }
        }
        void require_after(std::size_t agent, const std::vector<Access>& earlier, const std::string& what) {
            for (const Access& access : earlier) {
                if (clocks[agent][access.agent] < access.at) {
                    faults.push_back(fmt::format("{} before {} is done", what, access.what));
                }
            }
        }
    };

    struct Event final : StreamEvent {
        Event(std::shared_ptr<Log> of, bool no_waits) : log(std::move(of)), without_waits(no_waits) {}
        bool reached() const override {
            log->require_device();
            if (log->fast) {
                wait();
            }
            return !at || known();
        }
        void wait() const override {
            log->require_device();
            if (at && !without_waits) {
                log->join(kHost, *at);
            }
        }
        // The host has waited for it, or for something after it.
        bool known() const {
            for (std::size_t i = 0; i < at->size(); ++i) {
                if (log->clocks[kHost][i] < (*at)[i]) {
                    return false;
                }
            }
            return true;
        }

        std::shared_ptr<Log> log;
        bool without_waits;
        std::optional<Clock> at;
    };

    std::shared_ptr<Log> log_ = std::make_shared<Log>();
    std::set<Planted> planted_;
};

}  // namespace stoker::testing
