// The steps of a run of any length in bounded memory: means over neighbouring steps, and their extremes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "stoker/track/metrics_file.h"

namespace stoker {

class StepThinner {
  public:
    // Keeps at most `most` groups of steps, at least 2. Up to there each step has its own group; then every two
    // groups become one.
    explicit StepThinner(std::size_t most);

    // A step that is not later than the last one replaces the groups from it on.
    void add(const StepLine& step);

    // A line for each group: the step in its middle, means of loss (of those that are numbers) and learning rate, sums
    // of samples and times.
    std::vector<StepLine> means() const;
    // The lines with the smallest and the largest loss of each group (the largest and smallest rate where steps have no
    // loss), and one whose loss is not a number. Empty while each step has its own group.
    std::vector<StepLine> peaks() const;
    std::int64_t last_step() const { return groups_.empty() ? 0 : groups_.back().last; }

  private:
    struct Group {
        StepLine sum = {};  // of samples, times and learning rate; the last epoch
        std::int64_t first = 0;
        std::int64_t last = 0;
        std::int64_t count = 0;
        double loss = 0;  // sum
        std::int64_t finite = 0;
        std::optional<StepLine> low = {};
        std::optional<StepLine> high = {};
        std::optional<StepLine> gap = {};

        void merge(const Group& next);
    };
    static Group group_of(const StepLine& step);

    std::size_t most_;
    std::int64_t in_group_ = 1;  // steps of a whole group
    std::vector<Group> groups_;
};

}  // namespace stoker
