#include "stoker/profile/step_profiler.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <unordered_set>
#include <utility>

namespace stoker {
namespace {

// The name under which torch-tb-profiler looks for the time of a loader, among ops.
constexpr std::string_view kLoaderName = "enumerate(DataLoader)#Loader.__next__";

std::int64_t system_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

std::int64_t steady_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// The ids of events of the host, by which device events name what they belong to.
struct HostIds {
    std::unordered_set<std::uint64_t> ops;
    std::unordered_set<std::uint64_t> launches;

    void add(const ProfileEvent& event) { (event.kind == ProfiledKind::runtime ? launches : ops).insert(event.id); }
    bool own(const ProfileEvent& event) const {
        const bool range = event.kind == ProfiledKind::gpu_range;  // it has the id of the host's range
        return ops.contains(event.op) || (range ? ops : launches).contains(event.id);
    }
};

}  // namespace

void drop_events_since(std::int64_t began_ns, Profile& profile) {
    HostIds earlier;
    HostIds dropped;
    for (const ProfileEvent& event : profile.events) {
        if (!on_device(event.kind) && event.id != 0) {
            (event.start_ns < began_ns ? earlier : dropped).add(event);
        }
    }
    std::erase_if(profile.events, [&](const ProfileEvent& event) {
        const bool late = event.start_ns >= began_ns;
        return on_device(event.kind) ? dropped.own(event) || (late && !earlier.own(event)) : late;
    });
    std::erase_if(profile.memory, [&](const MemoryEvent& change) { return change.at_ns >= began_ns; });
}

StepProfiler::StepProfiler(Account& account, Loader& loader, const StepProfilerOptions& options)
    : account_(account), loader_(loader), options_(options), session_(options.kineto) {
    profile_.training_thread = gettid();
    account_.listen(this);
}

StepProfiler::~StepProfiler() {
    account_.listen(nullptr);
    loader_.set_log(nullptr);
    inner_.reset();
    phase_.reset();
    step_.reset();
}

void StepProfiler::begin() {
    prepare_next();
}

bool StepProfiler::step_done() {
    inner_.reset();
    phase_.reset();
    step_.reset();
    ++steps_;
    const ProfileSchedule& schedule = options_.schedule;
    const bool ends = schedule.at(steps_) != ProfileSchedule::Action::record || steps_ % schedule.cycle() == 0;
    profile_.full = profile_.full || (session_.running() && ops_ + session_.ops() >= options_.most_ops);
    if (session_.running() && (ends || profile_.full)) {
        stop();
    }
    if (profile_.full) {
        return true;
    }
    prepare_next();
    return steps_ >= schedule.steps();
}

// Brings the session into the state that the next step needs.
void StepProfiler::prepare_next() {
    const ProfileSchedule& schedule = options_.schedule;
    const ProfileSchedule::Action action = schedule.at(steps_);
    if (action == ProfileSchedule::Action::warm_up && steps_ % schedule.cycle() == schedule.wait) {
        session_.prepare();
    }
    if (action == ProfileSchedule::Action::record) {
        if (!session_.running()) {
            start();
        }
        step_.emplace(fmt::format("ProfilerStep#{}", steps_ + 1));
    }
}

void StepProfiler::start() {
    loader_.set_log(log_);
    session_.start();
    profile_.windows.push_back({.begin_ns = system_ns(), .first_step = steps_ + 1});
}

void StepProfiler::stop() {
    loader_.set_log(nullptr);
    profile_.windows.back().end_ns = system_ns();
    profile_.windows.back().last_step = steps_;
    ops_ += session_.ops();
    session_.stop(profile_);
    profile_.steady_offset_ns = system_ns() - steady_ns();
}

// The step that the profiler is in has begun, but was not done.
void StepProfiler::drop_unfinished_step() {
    const auto step =
        std::ranges::find(profile_.events, fmt::format("ProfilerStep#{}", steps_ + 1), &ProfileEvent::name);
    if (step == profile_.events.end()) {
        return;
    }
    const std::int64_t began = step->start_ns;
    drop_events_since(began, profile_);
    profile_.windows.back().end_ns = began;
    if (profile_.windows.back().last_step < profile_.windows.back().first_step) {
        profile_.windows.pop_back();
    }
}

Profile StepProfiler::finish() {
    inner_.reset();
    phase_.reset();
    step_.reset();
    if (session_.running()) {
        stop();
        drop_unfinished_step();
    }
    profile_.work = log_->take_spans();
    profile_.ring = log_->take_levels();
    std::ranges::stable_sort(profile_.ring, {}, &RingLevel::at);
    return std::exchange(profile_, {});
}

void StepProfiler::entered(Phase phase) noexcept {
    inner_.reset();
    phase_.reset();
    if (session_.running()) {
        open_phase(phase);
    }
}

void StepProfiler::open_phase(Phase phase) {
    if (phase == Phase::unmeasured) {
        return;
    }
    phase_.emplace(phase_name(phase));
    if (phase == Phase::wait) {
        inner_.emplace(kLoaderName, RecordedRange::Scope::op);
    } else if (phase == Phase::optimizer) {
        inner_.emplace(fmt::format("Optimizer.step#{}.step", options_.optimizer));
    }
}

}  // namespace stoker
