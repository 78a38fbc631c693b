// A recipe that is held open and measured on request: a child process (trial_process.h), or a made-up one in tests.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/tune/measurement.h"

namespace stoker {

// The trial cannot be measured: its recipe is refused, memory ran out, or it does not answer. what() is the reason.
class TrialFailed : public Error {
    using Error::Error;
};

// Memory ran out, perhaps because another trial is open.
class TrialOutOfMemory : public TrialFailed {
    using TrialFailed::TrialFailed;
};

// The stop flag was set while a trial worked.
struct TrialStopped {};

// The work of a trial.
struct TrialSpec {
    std::vector<std::string> sets = {};  // changes of the recipe, "key=value"
    std::int64_t samples = 0;            // at most so many, spread over the training data; 0: all
    bool probe = false;                  // costs one by one instead of training
    bool single_tensor = false;          // an optimizer without fused kernels
};

class Trial {
  public:
    virtual ~Trial() = default;

    virtual const TrialFacts& facts() const = 0;

    // Training: "measure" for so many seconds. A probe: "step" (steps on one held batch; `count` threads), "load" (the
    // loader alone; `count` workers) and "fetch" (stored bytes that are not in the page cache; `count` threads). Throws
    // TrialFailed and TrialStopped.
    virtual Measurement ask(const std::string& request, double seconds, int count = 0) = 0;
};

// Throws TrialFailed and TrialStopped.
using OpenTrial = std::function<std::unique_ptr<Trial>(const TrialSpec&)>;

}  // namespace stoker
