// A slot's memory is allocated on the steps' stream, whose work so far the first copy waits for. It may be freed while
// steps still read it, because LibTorch's allocator hands it on to later steps only: no record_stream is needed.
#include "stoker/bridge/device_copier.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "stoker/bridge/tensor.h"
#include "stoker/bridge/torch_error.h"

namespace stoker {
namespace {

std::int64_t bytes_in(const at::Tensor& tensor) {
    return static_cast<std::int64_t>(tensor.nbytes());
}

// Of the same field in a full batch: an epoch's smaller batch may be the first.
std::int64_t bytes_when_full(const at::Tensor& field, const Batch& batch) {
    return batch.size() == 0 ? 0 : bytes_in(field) / batch.size() * batch.capacity();
}

}  // namespace

struct DeviceCopier::Slot {
    std::vector<at::Tensor> memory;  // uint8, of each field
    std::unique_ptr<StreamEvent> copied;
    std::unique_ptr<StreamEvent> used;  // the steps are done with the last batch
    std::shared_ptr<Batch> source;      // until it is copied
    std::atomic<bool> leased = false;

    Slot() = default;
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    ~Slot() {
        try {
            finish_copy();
        } catch (const std::exception&) {  // the device failed; the caller already gets its error
        }
    }

    // The host waits for the copy into it.
    void finish_copy() {
        if (source != nullptr) {
            copied->wait();
            source.reset();
        }
    }

    bool holds(const std::vector<at::Tensor>& host) const {
        return std::ranges::equal(memory, host, [](const at::Tensor& own, const at::Tensor& wanted) {
            return bytes_in(own) >= bytes_in(wanted);
        });
    }
};

// Belongs to the tensors of one batch. Steps that use them are queued before the last one is released.
struct DeviceCopier::Lease {
    std::shared_ptr<DeviceStreams> streams;
    std::shared_ptr<Slot> slot;

    Lease(std::shared_ptr<DeviceStreams> of, std::shared_ptr<Slot> taken)
        : streams(std::move(of)), slot(std::move(taken)) {
        slot->leased = true;
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() {
        try {
            streams->record(*slot->used, WorkStream::steps);
        } catch (const std::exception&) {  // the device failed; its next operation reports it
        }
        slot->leased = false;
    }
};

DeviceCopier::DeviceCopier(const at::Device& device, BatchFields fields, std::shared_ptr<DeviceStreams> streams)
    : device_(device), fields_(std::move(fields)), streams_(std::move(streams)) {}

DeviceCopier::~DeviceCopier() = default;

void DeviceCopier::make_room() {
    for (const auto& slot : slots_) {
        if (slot->source != nullptr && slot->copied->reached()) {
            slot->source.reset();
        }
    }
    if (const auto next = free_slot(); next != nullptr) {
        next->finish_copy();
    }
}

DeviceBatch DeviceCopier::copy(const std::shared_ptr<Batch>& batch) {
    std::vector<at::Tensor> tensors = {as_tensor(batch, fields_.input)};
    const bool own_target = fields_.target != fields_.input;
    if (own_target) {
        tensors.push_back(as_tensor(batch, fields_.target));
    }
    for (const std::string& name : fields_.more) {
        tensors.push_back(as_tensor(batch, name));
    }
    if (!device_.is_cpu() || streams_ != nullptr) {
        tensors = copy_all(batch, tensors);
    }
    const auto late_of = [&](const std::string& name) {
        return std::ranges::find(batch->fields(), name, &FieldSpec::name)->late;
    };
    DeviceBatch out{.input = tensors.front(),
                    .target = tensors[own_target ? 1 : 0],
                    .input_name = fields_.input,
                    .late = late_of(fields_.input)};
    for (std::size_t i = 0; i < fields_.more.size(); ++i) {
        out.fields.push_back({fields_.more[i], tensors[(own_target ? 2 : 1) + i], late_of(fields_.more[i])});
    }
    return out;
}

// The slot that the next batch gets; null for a new one.
std::shared_ptr<DeviceCopier::Slot> DeviceCopier::free_slot() const {
    const auto found = std::ranges::find_if(slots_, [](const auto& slot) { return !slot->leased; });
    return std::ssize(slots_) < slots_that_fit_ || found == slots_.end() ? nullptr : *found;
}

std::shared_ptr<DeviceCopier::Slot> DeviceCopier::new_slot(const Batch& batch, const std::vector<at::Tensor>& host) {
    auto slot = std::make_shared<Slot>();
    for (const at::Tensor& tensor : host) {
        slot->memory.push_back(streams_->allocate(bytes_when_full(tensor, batch)));
    }
    slot->copied = streams_->make_event();
    slot->used = streams_->make_event();
    streams_->record(*slot->used, WorkStream::steps);  // earlier steps may still use what was freed there
    return slot;
}

// As the last one of slots_. Where there is no memory for a new slot, the copier goes on with those that it has.
std::shared_ptr<DeviceCopier::Slot> DeviceCopier::take_slot(const Batch& batch, const std::vector<at::Tensor>& host) {
    std::shared_ptr<Slot> slot = free_slot();
    std::erase(slots_, slot);
    if (slot == nullptr || !slot->holds(host)) {
        slot.reset();  // before the new one is allocated
        try {
            slot = new_slot(batch, host);
        } catch (const std::exception& error) {
            const auto spare =
                std::ranges::find_if(slots_, [&](const auto& own) { return !own->leased && own->holds(host); });
            if (!is_out_of_memory(error) || spare == slots_.end()) {
                throw;
            }
            slots_that_fit_ = std::ssize(slots_);
            slot = *spare;
            slot->finish_copy();
            slots_.erase(spare);
        }
    }
    slots_.push_back(slot);
    return slot;
}

std::vector<at::Tensor> DeviceCopier::copy_all(const std::shared_ptr<Batch>& batch,
                                               const std::vector<at::Tensor>& host) {
    if (streams_ == nullptr) {
        streams_ = make_device_streams(device_);
    }
    make_room();
    const std::shared_ptr<Slot> slot = take_slot(*batch, host);
    streams_->wait(WorkStream::copies, *slot->used);
    slot->source = batch;
    const auto lease = std::make_shared<Lease>(streams_, slot);
    std::vector<at::Tensor> copies;
    for (std::size_t i = 0; i < host.size(); ++i) {
        const at::Tensor& from = host[i];
        copies.push_back(at::from_blob(
            slot->memory[i].data_ptr(), from.sizes(), from.strides(), [lease](void*) {}, from.options().device(device_),
            device_));
        streams_->copy(copies.back(), from, batch->pinned());
    }
    streams_->record(*slot->copied, WorkStream::copies);
    streams_->wait(WorkStream::steps, *slot->copied);
    return copies;
}

std::int64_t bytes_of(const Batch& batch, const BatchFields& fields) {
    std::size_t bytes = batch.field(fields.input).bytes();
    bytes += fields.target == fields.input ? 0 : batch.field(fields.target).bytes();
    for (const std::string& name : fields.more) {
        bytes += batch.field(name).bytes();
    }
    return static_cast<std::int64_t>(bytes);
}

}  // namespace stoker
