#include "stoker/track/step_thinner.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace stoker {
namespace {

// The value that the chart of steps draws.
double value_of(const StepLine& step) {
    return step.loss.value_or(step.seconds > 0 ? static_cast<double>(step.samples) / step.seconds : 0);
}

}  // namespace

StepThinner::StepThinner(std::size_t most) : most_(std::max<std::size_t>(most, 2)) {}

StepThinner::Group StepThinner::group_of(const StepLine& step) {
    Group group{.sum = step, .first = step.step, .last = step.step, .count = 1};
    if (std::isfinite(value_of(step))) {
        group.low = group.high = step;
        group.loss = step.loss.value_or(0);
        group.finite = step.loss ? 1 : 0;
    } else {
        group.gap = step;
    }
    return group;
}

void StepThinner::Group::merge(const Group& next) {
    sum.epoch = next.sum.epoch;
    sum.samples += next.sum.samples;
    sum.lr += next.sum.lr;
    sum.seconds += next.sum.seconds;
    sum.wait_seconds += next.sum.wait_seconds;
    sum.loss = sum.loss ? sum.loss : next.sum.loss;  // whether there are losses at all
    last = next.last;
    count += next.count;
    loss += next.loss;
    finite += next.finite;
    if (next.low && (!low || value_of(*next.low) < value_of(*low))) {
        low = next.low;
    }
    if (next.high && (!high || value_of(*next.high) > value_of(*high))) {
        high = next.high;
    }
    gap = gap ? gap : next.gap;
}

void StepThinner::add(const StepLine& step) {
    while (!groups_.empty() && groups_.back().last >= step.step) {
        groups_.pop_back();
    }
    if (!groups_.empty() && groups_.back().count < in_group_) {
        groups_.back().merge(group_of(step));
        return;
    }
    if (groups_.size() >= most_) {
        const std::size_t half = groups_.size() / 2;
        for (std::size_t i = 0; i < half; ++i) {
            groups_[i] = groups_[2 * i];
            groups_[i].merge(groups_[2 * i + 1]);
        }
        if (groups_.size() % 2 == 1) {
            groups_[half] = groups_.back();
        }
        groups_.resize(half + groups_.size() % 2);
        in_group_ *= 2;
        add(step);
        return;
    }
    groups_.push_back(group_of(step));
}

std::vector<StepLine> StepThinner::means() const {
    std::vector<StepLine> lines;
    lines.reserve(groups_.size());
    for (const Group& group : groups_) {
        StepLine line = group.sum;
        line.step = group.first + (group.last - group.first) / 2;
        line.lr /= static_cast<double>(group.count);
        if (line.loss) {
            line.loss = group.finite > 0 ? group.loss / static_cast<double>(group.finite)
                                         : std::numeric_limits<double>::quiet_NaN();
        }
        lines.push_back(line);
    }
    return lines;
}

std::vector<StepLine> StepThinner::peaks() const {
    std::vector<StepLine> lines;
    if (in_group_ == 1) {
        return lines;
    }
    for (const Group& group : groups_) {
        std::vector<StepLine> own;
        for (const std::optional<StepLine>& line : {group.low, group.high, group.gap}) {
            if (line && std::ranges::find(own, line->step, &StepLine::step) == own.end()) {
                own.push_back(*line);
            }
        }
        std::ranges::sort(own, {}, &StepLine::step);
        lines.insert(lines.end(), own.begin(), own.end());
    }
    return lines;
}

}  // namespace stoker
