// The step account: where the training thread's wall time went, as flat shares that sum to 100 %.
// At any moment the thread is in exactly one phase, or in none, which counts as "unmeasured"; a
// nested phase suspends the outer one, so nothing is ever counted twice.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace stoker {

enum class Phase : std::uint8_t {
    wait,  // for the loader's next batch
    copy,  // of the batch to the device
    forward,
    backward,
    optimizer,
    step,           // forward, backward and optimizer where they are one piece
    communication,  // between ranks
    evaluate,
    checkpoint,
    unmeasured,  // no phase: everything the others do not cover
};
inline constexpr std::size_t kPhases = 10;

std::string_view phase_name(Phase phase);

using PhaseTimes = std::array<std::chrono::nanoseconds, kPhases>;

// What one step, or any stretch of the training thread's time, was spent on.
struct StepRecord {
    static constexpr int kVersion = 1;
    PhaseTimes times{};

    std::chrono::nanoseconds total() const;
    double share(Phase phase) const;  // of total(), in [0, 1]
};

// Kept by the training thread alone. The clock runs from construction (or `restore`) on.
class Account {
  public:
    using Clock = std::chrono::steady_clock;

    // Switches to `phase` and gives back the phase that was running.
    Phase enter(Phase phase);

    // Time since the last cut, by phase; the next record begins here. Sums over records are exact.
    StepRecord cut();

    // Everything up to the last cut. May be set from a checkpoint to go on counting.
    const StepRecord& sum() const { return sum_; }
    void restore(const StepRecord& sum);

  private:
    Clock::time_point since_ = Clock::now();
    Phase current_ = Phase::unmeasured;
    StepRecord step_;
    StepRecord sum_;
};

// In `phase` for the lifetime of this object, then back in whatever phase was running.
class PhaseSpan {
  public:
    PhaseSpan(Account& account, Phase phase) : account_(account), outer_(account.enter(phase)) {}
    PhaseSpan(const PhaseSpan&) = delete;
    PhaseSpan& operator=(const PhaseSpan&) = delete;
    ~PhaseSpan() { account_.enter(outer_); }

  private:
    Account& account_;
    Phase outer_;
};

// {"schema": 1, "seconds": S, "wait": share, ..., "unmeasured": share}
std::string account_json(const StepRecord& record);

}  // namespace stoker
