// The account of the training thread's wall time: shares of phases that sum to 100 %. The thread is in exactly one
// phase at any time; time in none of the named phases is "unmeasured". A nested phase suspends the outer one, so no
// time is counted twice.
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
    step,           // forward, backward and optimizer together, if they cannot be separated
    communication,  // between ranks
    sync,           // for the device to finish, e.g. before losses are read
    evaluate,
    checkpoint,
    unmeasured,  // everything that the other phases do not cover
};
inline constexpr std::size_t kPhases = 11;

// "wait", "copy", ..., as in records.
std::string_view phase_name(Phase phase);

using PhaseTimes = std::array<std::chrono::nanoseconds, kPhases>;

// Time per phase of one step, or of any other interval of the training thread.
struct StepRecord {
    static constexpr int kVersion = 1;
    PhaseTimes times{};

    std::chrono::nanoseconds total() const;
    double share(Phase phase) const;  // of total(), in [0, 1]
};

// Is called at every change of phase, on the training thread: a profiler opens its ranges here.
class PhaseListener {
  public:
    virtual ~PhaseListener() = default;
    virtual void entered(Phase phase) noexcept = 0;
};

// Used by the training thread only. The clock runs from construction (or `restore`) on.
class Account {
  public:
    using Clock = std::chrono::steady_clock;

    // Switches to `phase` and returns the phase that was running.
    Phase enter(Phase phase);

    // Returns the time since the last record, by phase, and begins the next record. Sums over records are exact.
    StepRecord take_record();

    // The sum of all records so far. A resumed run restores it from the checkpoint.
    const StepRecord& sum() const { return sum_; }
    // Continues from `sum`; the time since the last record is dropped.
    void restore(const StepRecord& sum);

    // Null: none. The listener's own time counts to the phase that begins.
    void listen(PhaseListener* listener) { listener_ = listener; }

  private:
    Clock::time_point since_ = Clock::now();
    Phase current_ = Phase::unmeasured;
    StepRecord step_;
    StepRecord sum_;
    PhaseListener* listener_ = nullptr;
};

// Enters `phase` for the lifetime of this object, then returns to the phase that was running.
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
