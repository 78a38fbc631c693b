#include "stoker/diagnose/torch_trace/sequences.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

namespace stoker {
namespace {

constexpr std::size_t kMinIterations = 10;
constexpr std::size_t kNear = 6;     // operators between two iterations
constexpr std::size_t kCounted = 2;  // batch norm follows a convolution at once, or after counting its batches
constexpr std::size_t kFar = 32;     // the same, if the number is always the same

bool fills(std::string_view name) {
    constexpr std::array<std::string_view, 14> kNames = {
        "aten::zeros",     "aten::ones",   "aten::full",     "aten::rand",    "aten::randn",
        "aten::randint",   "aten::normal", "aten::uniform_", "aten::normal_", "aten::zero_",
        "aten::ones_like", "aten::fill_",  "aten::arange",   "aten::eye"};
    return std::ranges::find(kNames, name) != kNames.end();
}

// "[[8, 3, 32, 32], [16, 3, 3, 3], [16], ...]": whether the third input, the bias, has a size.
bool has_bias(std::string_view shapes) {
    int depth = 0;
    int input = 0;
    for (std::size_t i = 0; i + 1 < shapes.size(); ++i) {
        depth += shapes[i] == '[' ? 1 : shapes[i] == ']' ? -1 : 0;
        input += shapes[i] == ',' && depth == 1 ? 1 : 0;
        if (input == 2 && depth == 2) {
            return shapes[i + 1] != ']';
        }
    }
    return false;
}

class Search {
  public:
    Search(const TraceEvents& trace, const HostWalk& host) : trace_(trace), host_(host) {}

    void root(const RootOp& root) {
        ++position_;
        const std::string& name = trace_.names[trace_.events[root.event].name];
        if (name == "aten::select") {
            select(root);
        }
        if (before_ != nullptr) {
            pair(*before_, root, name);
        }
        before_ = &root;
    }

    // Ends all loops: operators of another range or step follow.
    void gap() {
        for (auto& [shapes, loop] : loops_) {
            close(loop);
        }
        loops_.clear();
        before_ = nullptr;
        convolution_ = nullptr;
    }

    std::vector<SequenceEntry> take() {
        gap();
        std::vector<SequenceEntry> found;
        found.reserve(found_.size());
        for (auto& [key, entry] : found_) {
            found.push_back(std::move(entry));
        }
        return found;
    }

  private:
    struct Loop {
        std::size_t iterations = 0;
        std::size_t last = 0;  // position of its last select
        std::size_t distance = 0;
        std::int64_t start = 0;
        std::int64_t end = 0;
        std::uint32_t place = 0;
    };

    void count(std::string_view kind, std::uint32_t place, std::int64_t count, double us) {
        SequenceEntry& entry = found_[{std::string(kind), place}];
        entry.kind = kind;
        entry.place = host_.places[place];
        entry.count += count;
        entry.us += us;
    }

    void close(const Loop& loop) {
        // A loop over x[i] and y[i] has two selects each time; it is the same time.
        if (loop.iterations >= kMinIterations && loop.start >= counted_until_) {
            counted_until_ = loop.end;
            count("indexing loop", loop.place, static_cast<std::int64_t>(loop.iterations),
                  static_cast<double>(loop.end - loop.start) / 1000);
        }
    }

    void select(const RootOp& root) {
        Loop& loop = loops_[trace_.events[root.event].shapes];
        const std::size_t distance = position_ - loop.last;
        if (loop.iterations > 0 && distance > kNear && (distance > kFar || distance != loop.distance)) {
            if (loop.iterations > 1 || distance > kFar) {
                close(loop);
                loop = {};
            }
        }
        if (loop.iterations == 0) {
            loop.start = root.time.start;
            loop.place = root.place;
        } else {
            loop.distance = distance;
        }
        loop.iterations += 1;
        loop.last = position_;
        loop.end = root.time.end;
    }

    void pair(const RootOp& first, const RootOp& second, std::string_view second_name) {
        const TraceEvent& event = trace_.events[first.event];
        const std::string_view name = trace_.names[event.name];
        if (name.starts_with("aten::conv")) {
            convolution_ = &first;
            convolution_position_ = position_ - 1;
        }
        if (second_name == "aten::batch_norm" && convolution_ != nullptr &&
            position_ - convolution_position_ <= kCounted &&
            has_bias(trace_.names[trace_.events[convolution_->event].shapes])) {
            count("conv bias before batch norm", convolution_->place, 1, convolution_->bias_us);
        } else if (second_name == "aten::to" && second.copies_to_device && fills(name) && !first.launches_kernels) {
            const std::int64_t ns = first.time.end - first.time.start + second.time.end - second.time.start;
            count("filled on the host, then copied", second.place, 1, static_cast<double>(ns) / 1000);
        }
    }

    const TraceEvents& trace_;
    const HostWalk& host_;
    std::size_t position_ = 0;
    const RootOp* before_ = nullptr;
    const RootOp* convolution_ = nullptr;  // the last one
    std::size_t convolution_position_ = 0;
    std::int64_t counted_until_ = 0;
    std::map<std::uint32_t, Loop> loops_ = {};  // by shapes
    std::map<std::pair<std::string, std::uint32_t>, SequenceEntry> found_ = {};
};

}  // namespace

std::vector<SequenceEntry> find_sequences(const TraceEvents& trace, const HostWalk& host,
                                          std::span<const TraceStep> steps, const TimeRange& window) {
    Search search(trace, host);
    std::size_t wait = 0;
    std::size_t step = 0;
    for (const RootOp& root : host.roots) {
        if (root.time.start < window.start || root.time.start >= window.end) {
            continue;
        }
        while (step < steps.size() && steps[step].time.end <= root.time.start) {
            search.gap();
            ++step;
        }
        while (wait < host.waits.size() && host.waits[wait].end <= root.time.start) {
            ++wait;
        }
        if (root.backward || (wait < host.waits.size() && host.waits[wait].start <= root.time.start)) {
            search.gap();
        } else {
            search.root(root);
        }
    }
    return search.take();
}

}  // namespace stoker
