// Profiles steps of a run by a schedule: starts and stops Kineto between steps, opens a range for each step and each
// phase of the account, and collects the loader's work.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "stoker/pipeline/loader.h"
#include "stoker/profile/kineto_session.h"
#include "stoker/profile/profile_schedule.h"
#include "stoker/profile/recorded_range.h"
#include "stoker/records/account.h"

namespace stoker {

// The most operators and ranges. A recorded one takes some kilobytes until all files are written.
inline constexpr std::int64_t kMostRecordedOps = 2'000'000;
inline constexpr std::int64_t kBytesOfRecordedOp = 8192;

struct StepProfilerOptions {
    ProfileSchedule schedule = {};
    KinetoOptions kineto = {};
    std::string optimizer = "SGD";             // torch.optim's name
    std::int64_t most_ops = kMostRecordedOps;  // the recording ends with the step in which more are recorded
};

// Removes what the host began at `began_ns` or later, and the device events that belong to it: those of earlier ops may
// run later than that. A device event whose op and launch were not recorded counts by its own time.
void drop_events_since(std::int64_t began_ns, Profile& profile);

// All calls come from the training thread.
class StepProfiler final : private PhaseListener {
  public:
    // Both must outlive this object.
    StepProfiler(Account& account, Loader& loader, const StepProfilerOptions& options);
    StepProfiler(const StepProfiler&) = delete;
    StepProfiler& operator=(const StepProfiler&) = delete;
    ~StepProfiler() override;

    // Before the first step.
    void begin();
    // After each step. True once the schedule has no more steps, or as many ops are recorded as `most_ops` says.
    bool step_done();
    // Ends a recording that has not finished, when a run ends early, and returns everything but an unfinished step.
    Profile finish();

  private:
    void entered(Phase phase) noexcept override;
    void open_phase(Phase phase);
    void prepare_next();
    void start();
    void stop();
    void drop_unfinished_step();

    Account& account_;
    Loader& loader_;
    const StepProfilerOptions options_;
    KinetoSession session_;
    std::shared_ptr<WorkLog> log_ = std::make_shared<WorkLog>();  // workers may still write to it after the last step
    Profile profile_;
    std::int64_t steps_ = 0;
    std::int64_t ops_ = 0;  // of the windows before this one
    // Inner ranges are closed first.
    std::optional<RecordedRange> step_;
    std::optional<RecordedRange> phase_;
    std::optional<RecordedRange> inner_;
};

}  // namespace stoker
