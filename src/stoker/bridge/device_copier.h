// Copies batches to a device on a separate stream, while earlier steps run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stoker/bridge/device.h"
#include "stoker/bridge/device_streams.h"
#include "stoker/pipeline/batch.h"

namespace stoker {

// The fields of a batch that a DeviceCopier copies.
struct BatchFields {
    std::string input = std::string(kImageField);
    std::string target = std::string(kLabelField);  // may be `input`
    std::vector<std::string> more = {};
};

// The bytes of these fields in a batch.
std::int64_t bytes_of(const Batch& batch, const BatchFields& fields);

// Batches use slots on the device in turn. Two events of each slot order the streams: `copied`, which the steps wait
// for, and `used`, which the next copy into the slot waits for. Used by one thread; the tensors of a batch may be
// released by any. On the CPU nothing is copied, and images are decoded by the caller.
class DeviceCopier {
  public:
    // A step reads one slot while the next is filled; the third is for steps and copies of uneven length.
    static constexpr int kSlots = 3;

    // `streams`: null for those of the device, with steps on the stream that is current at the first copy.
    explicit DeviceCopier(const at::Device& device, BatchFields fields = {},
                          std::shared_ptr<DeviceStreams> streams = nullptr);
    DeviceCopier(const DeviceCopier&) = delete;
    DeviceCopier& operator=(const DeviceCopier&) = delete;
    ~DeviceCopier();

    // Waits until the copy into the next slot's last batch is done. That copy waited for the step that used the slot
    // before, so the host stays at most 2 * kSlots steps ahead of the device and holds at most kSlots batches of the
    // loader. Does nothing on the CPU.
    void make_room();

    // make_room(), then queues the copy, and behind it the decoding of images (DeferredNormalize::decode), which the
    // batch then has as bytes. The batch is held until it is copied, or the loader would overwrite it. Its tensors lie
    // in a slot as long as any of them lives; a caller that keeps them takes further slots, which stay with the copier.
    // If not all slots fit into the device's memory, the copier uses those that do, at least one. Throws
    // InvalidArgument for a field that the batch does not have, or a ragged one, and DataError for a JPEG that does not
    // fit its entry points: it waits for the decoding of a batch with JPEGs.
    DeviceBatch copy(const std::shared_ptr<Batch>& batch);

  private:
    struct Slot;
    struct Lease;
    struct Field;

    std::shared_ptr<Slot> free_slot() const;
    static std::vector<std::int64_t> places(const Batch& batch, const std::vector<Field>& fields);
    std::shared_ptr<Slot> new_slot(std::int64_t bytes);
    std::shared_ptr<Slot> take_slot(std::int64_t bytes);
    std::vector<at::Tensor> copy_all(const std::shared_ptr<Batch>& batch, const std::vector<Field>& fields);
    bool copy_together(const Batch& batch, const std::vector<Field>& fields, const std::vector<std::int64_t>& places,
                       const at::Tensor& slot);
    void reserve_decoder(std::int64_t bytes);
    void decode(Batch& batch, const Field& field, const at::Tensor& to);

    at::Device device_;
    BatchFields fields_;
    std::shared_ptr<DeviceStreams> streams_;
    std::vector<std::shared_ptr<Slot>> slots_;  // the one that was filled longest ago comes first
    std::ptrdiff_t slots_that_fit_ = kSlots;    // fewer after memory ran out
    int only_pixels_ = 0;                       // batches in a row that needed no decoder
    at::Tensor decoder_memory_;  // (bytes) uint8 on the device, used for one image field after the other on `copies`
};

}  // namespace stoker
