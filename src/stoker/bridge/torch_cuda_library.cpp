// The implementation of torch_cuda.h: C++ on LibTorch's CUDA headers, without kernels. Nothing else is linked against
// LibTorch's CUDA libraries.
#include <ATen/Context.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "stoker/bridge/torch_cuda.h"

namespace stoker {
namespace {

std::string bus_id_of(const cudaDeviceProp& device) {
    char text[32] = "";
    std::snprintf(text, sizeof text, "%04x:%02x:%02x", device.pciDomainID, device.pciBusID, device.pciDeviceID);
    return text;
}

namespace allocator = c10::cuda::CUDACachingAllocator;

class CudaGraphs final : public DeviceGraphs {
  public:
    explicit CudaGraphs(c10::DeviceIndex device) : device_(device) {}

    // Captures on a side stream, because the default stream cannot be captured. It is the same for all graphs: one
    // takes only that memory of the pool again that was allocated on its own stream.
    void capture(const std::function<void()>& work) override {
        const c10::cuda::CUDAGuard on_device(device_);
        c10::cuda::device_synchronize();
        allocator::emptyCache();  // the graphs' pool comes on top of the cached memory of earlier steps
        if (!stream_) {
            stream_ = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device_);
        }
        if (graphs_.empty()) {  // a pool that no graph uses is gone
            pool_ = at::cuda::graph_pool_handle();
        }
        const c10::cuda::CUDAStreamGuard on_stream(*stream_);
        // Room for the graph's own allocations. Without it the graph's constructor would leave it half registered, and
        // its destructor would end the process.
        allocator::raw_delete(allocator::raw_alloc_with_stream(1, *stream_));
        std::exception_ptr error;
        at::cuda::CUDAGraph& graph = *graphs_.emplace_back(std::make_unique<at::cuda::CUDAGraph>());
        try {
            // Thread-local: other threads, such as the loader's, may allocate pinned memory meanwhile.
            graph.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
            work();
        } catch (...) {
            error = std::current_exception();
        }
        try {
            graph.capture_end();
        } catch (...) {
            error = error ? error : std::current_exception();
            leave_capture();
        }
        if (error) {
            graphs_.pop_back();
            std::rethrow_exception(error);
        }
    }

    void replay(std::size_t number) override { graphs_.at(number)->replay(); }

    void clear() override { graphs_.clear(); }

  private:
    // If capture_end fails, LibTorch's allocators and its generator remain in capture mode. This ends it.
    void leave_capture() {
        try {
            allocator::endAllocateToPool(device_, pool_);
            allocator::releasePool(device_, pool_);
            at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(pool_);
            at::getHostAllocator(at::kCUDA)->release_pool(pool_);
        } catch (const std::exception&) {
            // The pool was already released; the graph's destructor frees the memory.
        }
        at::Generator generator = at::globalContext().defaultGenerator({at::kCUDA, device_});
        const std::lock_guard lock(generator.mutex());
        generator.graphsafe_set_state(generator.clone());
    }

    c10::DeviceIndex device_;
    std::optional<c10::cuda::CUDAStream> stream_;
    at::MempoolId_t pool_ = {};
    std::vector<std::unique_ptr<at::cuda::CUDAGraph>> graphs_;
};

class Library final : public TorchCuda {
  public:
    std::unique_ptr<DeviceGraphs> make_graphs(const at::Device& device) override {
        return std::make_unique<CudaGraphs>(device.index());
    }

    DeviceMemory memory(const at::Device& device) override {
        constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
        const auto stats = allocator::getDeviceStats(device.index());
        return {.allocated = stats.allocated_bytes[kAll].current,
                .reserved = stats.reserved_bytes[kAll].current,
                .peak_allocated = stats.allocated_bytes[kAll].peak,
                .peak_reserved = stats.reserved_bytes[kAll].peak,
                .retries = stats.num_alloc_retries};
    }

    std::int64_t free_bytes(const at::Device& device) override {
        const c10::cuda::CUDAGuard on_device(device);
        std::size_t free = 0;
        std::size_t total = 0;
        C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
        const DeviceMemory kept = memory(device);
        return static_cast<std::int64_t>(free) + kept.reserved - kept.allocated;
    }

    std::optional<CudaDevice> properties(const at::Device& device) override {
        if (device.index() >= c10::cuda::device_count()) {
            return std::nullopt;
        }
        const cudaDeviceProp& found = *at::cuda::getDeviceProperties(device.index());
        return CudaDevice{.name = found.name,
                          .major = found.major,
                          .minor = found.minor,
                          .memory_bytes = found.totalGlobalMem,
                          .uuid = {found.uuid.bytes, 16},
                          .bus_id = bus_id_of(found)};
    }

    std::byte* allocate_pinned(const at::Device& device, std::size_t bytes) override {
        const c10::cuda::CUDAGuard on_device(device);  // a worker thread would open a second context, on device 0
        void* data = nullptr;
        C10_CUDA_CHECK(cudaHostAlloc(&data, bytes == 0 ? 1 : bytes, cudaHostAllocPortable));
        return static_cast<std::byte*>(data);
    }

    void free_pinned(std::byte* data) noexcept override { cudaFreeHost(data); }

    void set_sync_debug_mode(bool error) override {
        c10::cuda::warning_state().set_sync_debug_mode(error ? c10::cuda::SyncDebugMode::L_ERROR
                                                             : c10::cuda::SyncDebugMode::L_DISABLED);
    }
};

}  // namespace
}  // namespace stoker

extern "C" [[gnu::visibility("default")]] stoker::TorchCuda* stoker_torch_cuda() {
    static stoker::Library library;
    return &library;
}
