// The two streams of a device that training uses: steps run on one, copies of batches at the same time on the other. An
// interface, so that tests check the order of copies and steps without a device (tests/bridge/fake_streams.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "stoker/pipeline/deferred_images.h"

namespace stoker {

enum class WorkStream : std::uint8_t { steps, copies };

// A point in the work of a stream, set by DeviceStreams::record. Before that it counts as reached.
class StreamEvent {
  public:
    virtual ~StreamEvent() = default;
    virtual bool reached() const = 0;
    // The host waits.
    virtual void wait() const = 0;
};

// All functions queue their work and return; none waits for the device, except a copy from or to pageable memory.
class DeviceStreams {
  public:
    virtual ~DeviceStreams() = default;
    // uint8 (bytes) on the device, allocated and freed in the order of `steps`, as all tensors of a step.
    virtual at::Tensor allocate(std::int64_t bytes) = 0;
    // Copies on `copies` from the host's memory to the device's, or back: same shape, strides and type.
    virtual void copy(const at::Tensor& to, const at::Tensor& from, bool pinned) = 0;
    // Makes images on `copies`; all memory is the device's.
    virtual void make_images(const DeferredImages& images) = 0;
    virtual std::unique_ptr<StreamEvent> make_event() = 0;
    // Moves the event to the end of the stream's work so far. Waits that were queued before keep the old point.
    virtual void record(StreamEvent& event, WorkStream stream) = 0;
    // Work that is queued on `stream` from now on begins after `event`.
    virtual void wait(WorkStream stream, const StreamEvent& event) = 0;
};

// `steps` is the stream that is current now, `copies` one of LibTorch's pool.
std::unique_ptr<DeviceStreams> make_device_streams(const at::Device& device);

}  // namespace stoker
