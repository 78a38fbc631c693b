#include "stoker/profile/kineto_session.h"

#include <ATen/record_function.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/csrc/profiler/collection.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "stoker/profile/flops.h"

namespace stoker {
namespace {

namespace kineto = torch::autograd::profiler;
namespace impl = torch::profiler::impl;
using Activity = libkineto::ActivityType;

struct RestoreLogLevel {
    int level;
    ~RestoreLogLevel() { FLAGS_caffe2_log_level = level; }
};

impl::ProfilerConfig config_of(const KinetoOptions& options) {
    impl::ExperimentalConfig experimental;
    experimental.expose_kineto_event_metadata = true;  // grids, streams, bytes of copies
    return impl::ProfilerConfig(impl::ProfilerState::KINETO, options.shapes, options.memory, options.stacks,
                                options.flops, options.modules, experimental);
}

std::set<impl::ActivityType> activities_of(const KinetoOptions& options) {
    std::set<impl::ActivityType> activities{impl::ActivityType::CPU};
    if (options.cuda) {
        activities.insert(impl::ActivityType::CUDA);
    }
    return activities;
}

ProfiledKind kind_of(const kineto::KinetoEvent& event) {
    switch (static_cast<Activity>(event.activityType())) {
        case Activity::USER_ANNOTATION:
            return ProfiledKind::range;
        case Activity::GPU_USER_ANNOTATION:
            return ProfiledKind::gpu_range;
        case Activity::GPU_MEMCPY:
            return ProfiledKind::copy;
        case Activity::GPU_MEMSET:
            return ProfiledKind::fill;
        case Activity::CONCURRENT_KERNEL:
            return ProfiledKind::kernel;
        case Activity::CUDA_RUNTIME:
        case Activity::CUDA_DRIVER:
            return ProfiledKind::runtime;
        case Activity::CUDA_SYNC:
        case Activity::CUDA_EVENT:
            return ProfiledKind::sync;
        case Activity::OVERHEAD:
            return ProfiledKind::overhead;
        default:
            return ProfiledKind::op;
    }
}

// LibTorch's own count of conv2d gives up, with a warning, if padding or dilation is one number for both dimensions,
// and takes a transposed convolution for a plain one.
std::uint64_t flops_of_event(const kineto::KinetoEvent& event) {
    const std::string name = event.name();
    const bool backward = name == "aten::convolution_backward";
    if (!backward && name != "aten::conv2d" && name != "aten::convolution") {
        return event.flops();
    }
    const auto shapes = event.shapes();
    const auto arguments = event.concreteInputs();
    // The arguments: input, weight, bias, stride, padding, dilation, transposed; of the backward the output's gradient,
    // input, weight, the bias's sizes, and the same. conv2d has no `transposed`.
    const std::size_t input = backward ? 1 : 0;
    const std::size_t stride = input + 3;
    const std::size_t transposed = input + 6;
    if (shapes.size() < input + 2) {
        return 0;
    }
    if (name != "aten::conv2d" && transposed < arguments.size() && arguments[transposed].isBool() &&
        arguments[transposed].toBool()) {
        return (backward ? 2 : 1) * transposed_convolution_flops(shapes[input], shapes[input + 1]);
    }
    const auto is_list = [&](std::size_t i) { return i < arguments.size() && arguments[i].isIntList(); };
    if (backward || !is_list(stride) || !is_list(stride + 1) || !is_list(stride + 2)) {
        return 0;  // `padding` may be a text: the convolution that conv2d calls has numbers
    }
    return convolution_flops(shapes[0], shapes[1], arguments[stride].toIntVector(), arguments[stride + 1].toIntVector(),
                             arguments[stride + 2].toIntVector());
}

ProfileEvent event_of(const kineto::KinetoEvent& event, const KinetoOptions& options) {
    const ProfiledKind kind = kind_of(event);
    const bool has_arguments = on_device(kind) || kind == ProfiledKind::runtime;
    ProfileEvent out{.name = event.name(),
                     .kind = kind,
                     .start_ns = static_cast<std::int64_t>(event.startNs()),
                     .end_ns = static_cast<std::int64_t>(event.endNs()),
                     .thread = event.deviceResourceId(),
                     .device = event.deviceIndex(),
                     .id = event.correlationId(),
                     .op = event.linkedCorrelationId(),
                     .sequence = event.sequenceNr(),
                     .forward_thread = static_cast<std::int64_t>(event.fwdThreadId()),
                     .flops = options.flops && event.hasShapes() ? flops_of_event(event) : 0,
                     .metadata = has_arguments ? event.metadataJson() : ""};
    if (event.hasShapes() && !event.shapes().empty()) {
        const auto shapes = event.shapes();
        std::string text;
        for (const std::vector<std::int64_t>& shape : shapes) {
            text += fmt::format("{}[{}]", text.empty() ? "" : ", ", fmt::join(shape, ", "));
        }
        out.shapes = fmt::format("[{}]", text);
    }
    if (event.hasTypes() && !event.dtypes().empty()) {
        out.types = fmt::format("[\"{}\"]", fmt::join(event.dtypes(), "\", \""));
    }
    if (event.hasStack() && !event.stack().empty()) {
        out.place = event.stack().front();
    }
    if (event.hasModuleHierarchy()) {
        out.module = fmt::format("{}", fmt::join(event.moduleHierarchy(), "."));
    }
    return out;
}

// Allocations are in the tree of events only.
void add_memory(const kineto::experimental_event_t& event, std::vector<MemoryEvent>& memory) {
    std::vector<const impl::Result*> waiting{event.get()};
    while (!waiting.empty()) {
        const impl::Result& result = *waiting.back();
        waiting.pop_back();
        if (result.tag() == impl::EventType::Allocation) {
            const auto& fields = std::get<impl::ExtraFields<impl::EventType::Allocation>>(result.extra_fields_);
            memory.push_back({.device = fields.device().is_cpu() ? "cpu" : fields.device().str(),
                              .at_ns = result.start_time_ns_,
                              .thread = result.kineto_info_.resource,
                              .bytes = fields.alloc_size_,
                              .allocated = static_cast<std::int64_t>(fields.total_allocated_),
                              .reserved = static_cast<std::int64_t>(fields.total_reserved_),
                              .address = reinterpret_cast<std::uint64_t>(fields.ptr_)});
        }
        for (const auto& child : result.children_) {
            waiting.push_back(child.get());
        }
    }
}

}  // namespace

KinetoSession::~KinetoSession() {
    stop_counting();
    if (running_) {
        const RestoreLogLevel restore{log_level_};
        try {
            kineto::disableProfiler();
        } catch (const std::exception&) {  // an error is about to be thrown, or has been
        }
    }
}

void KinetoSession::count_ops() {
    ops_ = 0;
    counter_ = at::addGlobalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
            ops_.fetch_add(1, std::memory_order_relaxed);
            return nullptr;
        }));
}

void KinetoSession::stop_counting() {
    if (counter_) {
        at::removeCallback(*std::exchange(counter_, std::nullopt));
    }
}

// Without a GPU Kineto prints an error about that each time. A level that the user set wins.
void KinetoSession::prepare() {
    if (!options_.cuda) {
        setenv("KINETO_LOG_LEVEL", "6", /*overwrite=*/0);
    }
    kineto::prepareProfiler(config_of(options_), activities_of(options_));
    prepared_ = true;
}

void KinetoSession::start() {
    if (!prepared_) {
        prepare();
    }
    log_level_ = std::exchange(FLAGS_caffe2_log_level, c10::GLOG_ERROR);
    // No scopes: all of them, user ranges included.
    kineto::enableProfiler(config_of(options_), activities_of(options_));
    prepared_ = false;
    running_ = true;
    count_ops();
}

void KinetoSession::stop(Profile& profile) {
    stop_counting();
    const RestoreLogLevel restore{log_level_};
    if (options_.cuda) {  // or the kernels that still run would be missing
        const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
        guard.synchronizeDevice(guard.getDevice().index());
    }
    const std::unique_ptr<kineto::ProfilerResult> result = kineto::disableProfiler();
    running_ = false;
    for (const kineto::KinetoEvent& event : result->events()) {
        if (!event.isHiddenEvent() && event.name() != "[memory]") {
            profile.events.push_back(event_of(event, options_));
        }
    }
    const std::size_t before = profile.memory.size();
    for (const kineto::experimental_event_t& event : result->event_tree()) {
        add_memory(event, profile.memory);
    }
    std::ranges::stable_sort(profile.memory.begin() + static_cast<std::ptrdiff_t>(before), profile.memory.end(), {},
                             &MemoryEvent::at_ns);
}

}  // namespace stoker
