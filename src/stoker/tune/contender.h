// One side of a comparison: a trial that is opened when it is first measured.
#pragma once

#include <functional>
#include <memory>

#include "stoker/tune/paired.h"
#include "stoker/tune/trial.h"

namespace stoker {

class Contender {
  public:
    // `open` must outlive this object.
    Contender(const OpenTrial& open, TrialSpec spec) : open_(open), spec_(std::move(spec)) {}

    const TrialFacts& facts() { return trial().facts(); }
    // Throws TrialFailed and TrialStopped.
    Measurement measure(double seconds);
    // The share of its time that the training thread has waited for batches.
    double wait_share() const { return seconds_ > 0 ? wait_seconds_ / seconds_ : 0; }
    // Ends the trial, which frees its memory; the next measurement opens it again.
    void close() { trial_ = nullptr; }

  private:
    Trial& trial() {
        if (trial_ == nullptr) {
            trial_ = open_(spec_);
        }
        return *trial_;
    }

    const OpenTrial& open_;
    TrialSpec spec_;
    std::unique_ptr<Trial> trial_;
    double seconds_ = 0;  // measured
    double wait_seconds_ = 0;
};

// Compares both in slices of `seconds`. If memory runs out, they are opened one after the other. Throws TrialFailed if
// one fails for another reason, or alone, and TrialStopped.
PairedResult compare(Contender& a, Contender& b, double seconds, const PairedOptions& options,
                     const std::function<bool()>& out_of_time);

}  // namespace stoker
