// A recipe that a child process holds open, and measures on request. Between requests the child sleeps.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/tune/trial.h"

namespace stoker {

class TrialProcess final : public Trial {
  public:
    // Starts `command`, which writes a line of TrialFacts and then answers each line on its standard input with one on
    // its standard output: a Measurement, or {"error": reason}. It is killed when this object ends, and where an answer
    // takes `limit_seconds` more than was asked for; until the first measurement, which may fill a cache or compile,
    // `start_seconds` more. Throws TrialFailed and TrialStopped. `stop` must outlive this.
    TrialProcess(std::vector<std::string> command, const std::atomic<int>& stop, double limit_seconds = 60,
                 double start_seconds = kStartSeconds);
    TrialProcess(const TrialProcess&) = delete;
    TrialProcess& operator=(const TrialProcess&) = delete;
    ~TrialProcess() override;

    const TrialFacts& facts() const override { return facts_; }

    Measurement ask(const std::string& request, double seconds, int count = 0) override;

    static constexpr double kStartSeconds = 600;

  private:
    std::string read_line(double limit_seconds);
    [[noreturn]] void fail_ended();
    void end();

    const std::atomic<int>& stop_;
    double limit_seconds_;
    double start_seconds_;
    bool started_ = false;  // it has measured
    pid_t child_ = -1;
    Descriptor socket_;
    std::string unread_;  // received after the last line
    TrialFacts facts_;
};

}  // namespace stoker
