// A tree of frames as a list, without the frames that would be too narrow to see.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "stoker/diagnose/report/thin.h"

namespace stoker {
namespace {

constexpr int kMostFrameDepth = 160;

double value_of(const FlameFrame& frame) {
    double callees = 0;
    for (const FlameFrame& callee : frame.children) {
        callees += value_of(callee);
    }
    return std::max(std::isfinite(frame.value_us) ? frame.value_us : 0, callees);
}

struct Walk {
    double least;  // frames below it are joined
    std::vector<FlatFrame> out = {};

    void add(const std::vector<FlameFrame>& frames, int depth) {
        if (depth >= kMostFrameDepth) {
            return;  // their time stays in their caller's
        }
        std::vector<std::pair<double, const FlameFrame*>> sorted;
        sorted.reserve(frames.size());
        for (const FlameFrame& frame : frames) {
            sorted.emplace_back(value_of(frame), &frame);
        }
        std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) { return a.first > b.first; });
        FlatFrame small{.name = {}, .depth = depth, .frames = 0};
        const FlameFrame* first_small = nullptr;
        for (const auto& [value, frame] : sorted) {
            if (value < least) {
                small.value_us += value;
                ++small.frames;
                first_small = first_small == nullptr ? frame : first_small;
                continue;
            }
            out.push_back({.name = frame->name, .depth = depth, .value_us = value});
            add(frame->children, depth + 1);
        }
        if (small.frames > 0 && (depth == 0 || small.value_us >= least / 4)) {
            small.name = small.frames == 1 ? first_small->name : fmt::format("{} small frames", small.frames);
            out.push_back(std::move(small));
        }
    }
};

}  // namespace

std::vector<FlatFrame> flat_frames(const std::vector<FlameFrame>& roots, std::size_t most) {
    double whole = 0;
    for (const FlameFrame& root : roots) {
        whole += value_of(root);
    }
    constexpr double kPixels = 4000;
    // Without times no frame is larger than another, and doubling 0 ends nowhere.
    const bool timed = std::isfinite(whole) && whole > 0;
    for (double least = timed ? whole / kPixels : 1;; least *= 2) {
        Walk walk{.least = least};
        walk.add(roots, 0);
        if (walk.out.size() <= most || !(least <= whole)) {
            return std::move(walk.out);
        }
    }
}

}  // namespace stoker
