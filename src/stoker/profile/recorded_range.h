// A named range in LibTorch's profiler, from construction to destruction, on one thread. Ranges must nest with each
// other and with the ops between them. Costs a few nanoseconds while nothing listens.
#pragma once

#include <memory>
#include <string_view>

namespace at {
struct RecordFunction;
}

namespace stoker {

class RecordedRange {
  public:
    enum class Scope {
        user,  // a user annotation, with a twin on the GPU's timeline
        op,    // as if it were an op
    };

    explicit RecordedRange(std::string_view name, Scope scope = Scope::user);
    RecordedRange(const RecordedRange&) = delete;
    RecordedRange& operator=(const RecordedRange&) = delete;
    ~RecordedRange();

  private:
    std::unique_ptr<at::RecordFunction> range_;
};

}  // namespace stoker
