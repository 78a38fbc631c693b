// c10's device-neutral streams and events, so this file needs no CUDA header.
#include "stoker/bridge/device_streams.h"

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace stoker {
namespace {

class TorchEvent final : public StreamEvent {
  public:
    explicit TorchEvent(at::DeviceType type) : event(type) {}
    bool reached() const override { return event.query(); }
    void wait() const override { event.synchronize(); }

    c10::Event event;
};

class TorchStreams final : public DeviceStreams {
  public:
    explicit TorchStreams(const at::Device& device)
        : device_(device),
          steps_(c10::impl::VirtualGuardImpl(device.type()).getStream(device)),
          copies_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {}

    at::Tensor allocate(std::int64_t bytes) override {
        const c10::StreamGuard guard(steps_);
        return at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(device_));
    }

    void copy(const at::Tensor& to, const at::Tensor& from, bool pinned) override {
        const c10::StreamGuard guard(copies_);
        to.copy_(from, /*non_blocking=*/pinned);
    }

    void make_images(const DeferredImages& images) override {
        const c10::StreamGuard guard(copies_);
        make_images_cuda(images, copies_.native_handle());
    }

    std::unique_ptr<StreamEvent> make_event() override { return std::make_unique<TorchEvent>(device_.type()); }

    void record(StreamEvent& event, WorkStream stream) override {
        static_cast<TorchEvent&>(event).event.record(of(stream));
    }

    void wait(WorkStream stream, const StreamEvent& event) override {
        static_cast<const TorchEvent&>(event).event.block(of(stream));
    }

  private:
    const c10::Stream& of(WorkStream stream) const { return stream == WorkStream::steps ? steps_ : copies_; }

    at::Device device_;
    c10::Stream steps_;
    c10::Stream copies_;
};

}  // namespace

std::unique_ptr<DeviceStreams> make_device_streams(const at::Device& device) {
    return std::make_unique<TorchStreams>(device);
}

}  // namespace stoker
