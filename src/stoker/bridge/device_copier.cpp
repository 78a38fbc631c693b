// A slot's memory is allocated on the steps' stream, whose work so far the first copy waits for. It may be freed while
// steps still read it, because LibTorch's allocator hands it on to later steps only: no record_stream is needed.
#include "stoker/bridge/device_copier.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/bridge/tensor.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/pipeline/transforms/device_ops.h"

namespace stoker {
namespace {

std::int64_t bytes_in(const at::Tensor& tensor) {
    return static_cast<std::int64_t>(tensor.nbytes());
}

// The bytes of the same field in a full batch: an epoch's smaller batch may be the first.
std::int64_t bytes_when_full(const at::Tensor& field, const FieldSpec& spec, const Batch& batch) {
    if (!spec.deferred || !spec.deferred->decode) {
        return static_cast<std::int64_t>(spec.batch_bytes(batch.capacity()));
    }
    return batch.size() == 0 ? 0 : bytes_in(field) / batch.size() * batch.capacity();
}

// (N, C, H, W) uint8 in channels-last memory
at::Tensor empty_images(const Batch& batch, const DeferredDecode& decode, const at::Device& device) {
    return at::empty({batch.size(), decode.channels, decode.to.height, decode.to.width},
                     at::TensorOptions().dtype(at::kByte).device(device).memory_format(at::MemoryFormat::ChannelsLast));
}

// Of a field whose slot takes `slot_bytes` of `memory`: where its images' scratch memory begins, and its groups.
DeferredImages images_in(Batch& batch, std::size_t at, std::int64_t slot_bytes, const at::Tensor& memory,
                         const at::Tensor& to) {
    return {.decode = *batch.fields()[at].deferred->decode,
            .memory = static_cast<std::byte*>(memory.data_ptr()),
            .samples = batch.size(),
            .groups = plan_groups(batch.crop_slot(at), batch.size(), static_cast<std::uint64_t>(slot_bytes),
                                  static_cast<std::uint64_t>(memory.numel() - slot_bytes)),
            .out = to.mutable_data_ptr<std::uint8_t>()};
}

// A multiple of kDctCropAlignment.
std::int64_t aligned_bytes(const at::Tensor& tensor) {
    constexpr auto kStep = static_cast<std::int64_t>(kDctCropAlignment);
    return (bytes_in(tensor) + kStep - 1) / kStep * kStep;
}

// `places`: the beginning of the field's DctCropSlot, behind the decoding. Throws DataError.
void require_undamaged(Batch& batch, const at::Tensor& places) {
    const auto* const all = static_cast<const DctCropPlace*>(places.const_data_ptr());
    const auto* const found =
        std::find_if(all, all + batch.size(), [](const auto& place) { return place.damaged != 0; });
    if (found != all + batch.size()) {
        throw DataError({}, {.where = batch.payload(kKeyField, found - all),
                             .expected = "a JPEG that fits its entry points",
                             .got = "other bits on the device",
                             .hint = "memory or the index of JPEGs is damaged; data.jpeg_index = false does without"});
    }
}

at::Tensor decoded_on_host(Batch& batch, std::size_t at, const at::Tensor& slot) {
    const std::int64_t bytes = aligned_bytes(slot);
    const at::Tensor memory = at::empty({bytes + kMostDecoded}, at::kByte);
    at::Tensor images = empty_images(batch, *batch.fields()[at].deferred->decode, at::kCPU);
    const DeferredImages deferred = images_in(batch, at, bytes, memory, images);
    std::memcpy(memory.data_ptr(), slot.data_ptr(), batch.used_bytes(batch.fields()[at].name));
    make_images(deferred);
    require_undamaged(batch, memory);
    return images;
}

}  // namespace

struct DeviceCopier::Field {
    std::size_t at;                             // in the batch's fields
    at::Tensor host;                            // (N, ...)
    at::Tensor like;                            // its shape and type on the device; may have no memory
    std::optional<DeferredNormalize> deferred;  // with its tensors on the device

    Field(const std::shared_ptr<Batch>& batch, const std::string& name) : host(as_tensor(batch, name)), like(host) {
        const auto spec = std::ranges::find(batch->fields(), name, &FieldSpec::name);
        at = static_cast<std::size_t>(spec - batch->fields().begin());
        deferred = spec->deferred;
        if (deferred && deferred->decode) {
            like = empty_images(*batch, *deferred->decode, at::kMeta);
            deferred->decode.reset();
        }
    }
    bool decoded() const { return like.is_meta(); }
    std::byte* host_data() const { return static_cast<std::byte*>(host.data_ptr()); }
};

struct DeviceCopier::Slot {
    at::Tensor memory;  // uint8 (bytes), all fields
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
    const bool own_target = fields_.target != fields_.input;
    std::vector<Field> fields = {{batch, fields_.input}};
    if (own_target) {
        fields.emplace_back(batch, fields_.target);
    }
    for (const std::string& name : fields_.more) {
        fields.emplace_back(batch, name);
    }
    std::vector<at::Tensor> tensors;
    const bool copied = !device_.is_cpu() || streams_ != nullptr;
    if (copied) {
        tensors = copy_all(batch, fields);
    } else {
        for (const Field& field : fields) {
            tensors.push_back(field.decoded() ? decoded_on_host(*batch, field.at, field.host) : field.host);
        }
    }
    DeviceBatch out{.input = tensors.front(),
                    .target = tensors[own_target ? 1 : 0],
                    .input_name = fields_.input,
                    .late = fields.front().deferred,
                    .in_slot = copied};
    for (std::size_t i = 0; i < fields_.more.size(); ++i) {
        const std::size_t place = (own_target ? 2 : 1) + i;
        out.fields.push_back({fields_.more[i], tensors[place], fields[place].deferred});
    }
    return out;
}

// The slot that the next batch gets; null for a new one.
std::shared_ptr<DeviceCopier::Slot> DeviceCopier::free_slot() const {
    const auto found = std::ranges::find_if(slots_, [](const auto& slot) { return !slot->leased; });
    return std::ssize(slots_) < slots_that_fit_ || found == slots_.end() ? nullptr : *found;
}

// The start of each field in a slot, and the end of the last: one after the other, as in the loader's batches. The same
// for smaller batches.
std::vector<std::int64_t> DeviceCopier::places(const Batch& batch, const std::vector<Field>& fields) {
    constexpr auto kStep = static_cast<std::int64_t>(kAlignment);
    std::vector<std::int64_t> places = {0};
    for (const Field& field : fields) {
        const std::int64_t end = places.back() + bytes_when_full(field.like, batch.fields()[field.at], batch);
        places.push_back((end + kStep - 1) / kStep * kStep);
    }
    return places;
}

std::shared_ptr<DeviceCopier::Slot> DeviceCopier::new_slot(std::int64_t bytes) {
    auto slot = std::make_shared<Slot>();
    slot->memory = streams_->allocate(bytes);
    slot->copied = streams_->make_event();
    slot->used = streams_->make_event();
    streams_->record(*slot->used, WorkStream::steps);  // earlier steps may still use what was freed there
    return slot;
}

// Moves the slot to the end of slots_. If no memory is left for a new slot, reuses those that it has.
std::shared_ptr<DeviceCopier::Slot> DeviceCopier::take_slot(std::int64_t bytes) {
    std::shared_ptr<Slot> slot = free_slot();
    std::erase(slots_, slot);
    if (slot == nullptr || slot->memory.numel() < bytes) {
        slot.reset();  // before the new one is allocated
        try {
            slot = new_slot(bytes);
        } catch (const std::exception& error) {
            const auto spare = std::ranges::find_if(
                slots_, [&](const auto& own) { return !own->leased && own->memory.numel() >= bytes; });
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

std::vector<at::Tensor> DeviceCopier::copy_all(const std::shared_ptr<Batch>& batch, const std::vector<Field>& fields) {
    if (streams_ == nullptr) {
        streams_ = make_device_streams(device_);
    }
    make_room();
    const std::vector<std::int64_t> places = DeviceCopier::places(*batch, fields);
    const std::shared_ptr<Slot> slot = take_slot(places.back());
    streams_->wait(WorkStream::copies, *slot->used);
    slot->source = batch;
    const bool together = copy_together(*batch, fields, places, slot->memory);
    const auto lease = std::make_shared<Lease>(streams_, slot);
    std::vector<at::Tensor> copies;
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const Field& from = fields[i];
        copies.push_back(at::from_blob(
            slot->memory.mutable_data_ptr<std::uint8_t>() + places[i], from.like.sizes(), from.like.strides(),
            [lease](void*) {}, from.host.options().device(device_), device_));
        if (from.decoded()) {
            decode(*batch, from, copies.back());
        } else if (!together) {
            streams_->copy(copies.back(), from.host, batch->pinned());
        }
    }
    streams_->record(*slot->copied, WorkStream::copies);
    streams_->wait(WorkStream::steps, *slot->copied);
    return copies;
}

// Queues one copy of all fields if they have the same places in the batch as in the slot, with little between: for a
// small batch the host needs longer to queue a copy than the device to make it. Returns false if it did nothing.
bool DeviceCopier::copy_together(const Batch& batch, const std::vector<Field>& fields,
                                 const std::vector<std::int64_t>& places, const at::Tensor& slot) {
    constexpr auto kBetween = static_cast<std::int64_t>(kAlignment);
    std::int64_t end = 0;
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const bool in_place = fields[i].host_data() - fields.front().host_data() == places[i];
        if (fields[i].decoded() || !in_place || places[i] - end >= kBetween) {
            return false;
        }
        end = places[i] + bytes_in(fields[i].host);
    }
    const at::Tensor host = at::from_blob(fields.front().host_data(), {end}, at::TensorOptions().dtype(at::kByte));
    streams_->copy(slot.narrow(0, 0, end), host, batch.pinned());
    return true;
}

void DeviceCopier::reserve_decoder(std::int64_t bytes) {
    if (decoder_memory_.defined() && decoder_memory_.numel() >= bytes) {
        return;
    }
    decoder_memory_ = at::Tensor();
    decoder_memory_ = streams_->allocate(bytes);
    const std::unique_ptr<StreamEvent> free = streams_->make_event();
    streams_->record(*free, WorkStream::steps);  // earlier steps may still use what was freed there
    streams_->wait(WorkStream::copies, *free);
}

// Queues the copy of the field's used bytes, and the making of its images. Steps wait for both before they go on, so
// memory that is freed here is not handed on too early.
void DeviceCopier::decode(Batch& batch, const Field& field, const at::Tensor& to) {
    const at::Tensor host = field.host.flatten();
    const std::vector<UsedRange> used = batch.used_ranges(field.at);
    const auto part = [](const at::Tensor& memory, const UsedRange& range) {
        return memory.narrow(0, static_cast<std::int64_t>(range.begin),
                             static_cast<std::int64_t>(range.end - range.begin));
    };
    if (batch.has_only_pixels(field.at)) {
        // Steps may need the memory more; but to make it anew waits for all earlier ones.
        constexpr int kMany = 32;
        if (++only_pixels_ >= kMany) {
            decoder_memory_ = at::Tensor();
        }
        streams_->copy(to.permute({0, 2, 3, 1}).view({-1}), part(host, used.front()), batch.pinned());
        return;
    }
    only_pixels_ = 0;
    const std::int64_t slot_bytes = aligned_bytes(field.host);
    try {
        reserve_decoder(slot_bytes / std::max<std::int64_t>(batch.size(), 1) * batch.capacity() + kMostDecoded);
    } catch (const std::exception& error) {
        if (!is_out_of_memory(error) || !batch.fields()[field.at].deferred->decode->shared) {
            throw;
        }
        // A full device leaves it to this thread, until the workers are ahead again.
        streams_->copy(to, decoded_on_host(batch, field.at, field.host), /*pinned=*/false);
        return;
    }
    const DeferredImages images = images_in(batch, field.at, slot_bytes, decoder_memory_, to);
    for (const UsedRange& range : used) {
        streams_->copy(part(decoder_memory_, range), part(host, range), batch.pinned());
    }
    streams_->make_images(images);
    // A JPEG's damage must be known before a step uses the image. This waits for the decoding, during earlier steps.
    if (std::ranges::any_of(images.groups, [](const DctCropGroup& group) { return group.pieces > 0; })) {
        const at::Tensor places = at::empty({batch.size() * std::int64_t{sizeof(DctCropPlace)}}, at::kByte);
        streams_->copy(places, decoder_memory_.narrow(0, 0, places.numel()), /*pinned=*/false);
        require_undamaged(batch, places);
    }
}

std::int64_t bytes_of(const Batch& batch, const BatchFields& fields) {
    const auto bytes_of_field = [&](const std::string& name) {
        const auto spec = std::ranges::find(batch.fields(), name, &FieldSpec::name);
        if (spec == batch.fields().end() || !spec->deferred || !spec->deferred->decode) {
            return batch.used_bytes(name);
        }
        std::size_t bytes = 0;
        for (const UsedRange& range : batch.used_ranges(static_cast<std::size_t>(spec - batch.fields().begin()))) {
            bytes += range.end - range.begin;
        }
        return bytes;
    };
    std::size_t bytes = bytes_of_field(fields.input);
    bytes += fields.target == fields.input ? 0 : bytes_of_field(fields.target);
    for (const std::string& name : fields.more) {
        bytes += bytes_of_field(name);
    }
    return static_cast<std::int64_t>(bytes);
}

}  // namespace stoker
