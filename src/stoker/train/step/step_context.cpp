#include "stoker/train/step/step_context.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

namespace stoker {
namespace {

constexpr std::int64_t kOnDevice = 256;  // losses, before they are fetched unasked

}  // namespace

StepLosses::StepLosses(const at::Device& device)
    : losses_(at::zeros({kOnDevice}, at::TensorOptions().dtype(at::kFloat).device(device))) {}

void StepLosses::begin() {
    if (on_device_ == kOnDevice) {
        fetch();
    }
    last_ = on_device_;
}

void StepLosses::add(double loss) {
    losses_.mutable_data_ptr<float>()[on_device_++] = static_cast<float>(loss);
}

void StepLosses::fetch() {
    const at::Tensor values = losses_.narrow(0, 0, on_device_).to(at::kCPU, at::kDouble);
    const double* first = values.const_data_ptr<double>();
    fetched_.insert(fetched_.end(), first, first + on_device_);
    on_device_ = 0;
}

std::vector<double> StepLosses::take() {
    fetch();
    return std::exchange(fetched_, {});
}

std::optional<double> StepLosses::on_host() const {
    return losses_.is_cpu() && on_device_ > 0 ? std::optional<double>(losses_.const_data_ptr<float>()[on_device_ - 1])
                                              : std::nullopt;
}

DataRanks::DataRanks(Model& model, const Group* group, bool sync_batch_norm)
    : group_(group != nullptr && !group->alone() ? group : nullptr), syncs_(group_ != nullptr && sync_batch_norm) {
    model.sync_batch_norm(nullptr);  // of an earlier group
    if (group_ == nullptr) {
        return;
    }
    model.require_autograd();
    if (syncs_) {
        model.sync_batch_norm([group](const at::Tensor& values) { group->all_reduce(values); });
        return;
    }
    for (const auto& [name, tensor] : model.buffers()) {
        if (at::has_internal_overlap(tensor) != at::MemOverlap::Yes) {  // an expanded tensor cannot be written to
            buffers_.push_back(tensor);
        }
    }
}

void DataRanks::share_buffers(Account& account) const {
    if (!buffers_.empty()) {
        const PhaseSpan span(account, Phase::communication);
        group_->broadcast(buffers_);
    }
}

std::int64_t MicroBatches::of(std::int64_t samples) const {
    const std::int64_t parts = std::min(accumulate_, samples);
    const std::int64_t largest = std::max<std::int64_t>(largest_, 1);
    return short_of_memory_ ? std::min(parts, (samples * accumulate_ + largest_ - 1) / largest) : parts;
}

bool MicroBatches::add(std::int64_t samples) {
    largest_ = std::max(largest_, samples);
    return samples == largest_;
}

bool MicroBatches::split() {
    if (accumulate_ >= largest_) {
        return false;
    }
    accumulate_ = std::min(2 * accumulate_, largest_);
    short_of_memory_ = true;
    return true;
}

bool MicroBatches::at_least(std::int64_t parts, std::int64_t samples) {
    if (parts <= accumulate_) {
        return false;
    }
    largest_ = std::max(largest_, samples);
    accumulate_ = parts;
    short_of_memory_ = true;
    return true;
}

}  // namespace stoker
