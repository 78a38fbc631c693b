// A recipe that a child process holds open, and measures on request. Between requests the child sleeps.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/tune/trial.h"

namespace stoker {

// How long children may take to answer, learned from those that did. All trials of a search share it.
class Patience {
  public:
    explicit Patience(double least_seconds = 60, double most_seconds = 600)
        : least_(least_seconds), most_(most_seconds) {}

    // Seconds beyond those asked for. The first answer to a request has the most; later ones, of any child, have ten
    // times the slowest before, but at least the least.
    double limit(const std::string& request) const;
    void took(const std::string& request, double seconds);

  private:
    double least_;
    double most_;
    std::map<std::string, double> slowest_;
};

class TrialProcess final : public Trial {
  public:
    // Starts `command`, which writes a line of TrialFacts and then answers each line on its standard input with one on
    // its standard output: a Measurement, or {"error": reason, "memory": whether it ran out}. It is killed when this
    // object ends, and if an answer takes longer than `patience` allows. Throws TrialFailed and TrialStopped. `stop`
    // must outlive this.
    TrialProcess(std::vector<std::string> command, const std::atomic<int>& stop,
                 std::shared_ptr<Patience> patience = std::make_shared<Patience>());
    TrialProcess(const TrialProcess&) = delete;
    TrialProcess& operator=(const TrialProcess&) = delete;
    ~TrialProcess() override;

    const TrialFacts& facts() const override { return facts_; }

    Measurement ask(const std::string& request, double seconds, int count = 0) override;

  private:
    // The answer to `request`, for which the child was given `seconds`.
    std::string answer(const std::string& request, double seconds);
    std::string read_line(double limit_seconds);
    [[noreturn]] void fail_ended();
    void end();

    const std::atomic<int>& stop_;
    std::shared_ptr<Patience> patience_;
    pid_t child_ = -1;
    Descriptor socket_;
    std::string unread_;  // received after the last line
    TrialFacts facts_;
};

}  // namespace stoker
