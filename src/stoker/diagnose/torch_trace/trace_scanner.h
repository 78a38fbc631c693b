// Cuts a trace's JSON into its parts: the members of the outermost object, and each event of `traceEvents`.
// The text passes through a window of some MiB, so a file of any size takes the same memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/diagnose/torch_trace/trace_bytes.h"

namespace stoker {

// Bytes behind each part that may be read, as simdjson wants.
inline constexpr std::size_t kTracePadding = 64;

class TraceScanner {
  public:
    enum class Kind { event, member, end };
    struct Part {
        Kind kind = Kind::end;
        std::string_view key = {};   // of a member, as it stands between the quotes
        std::string_view text = {};  // JSON, valid until the next call; kTracePadding further bytes may be read
        std::uint64_t offset = 0;    // in the unpacked text
    };

    // Larger events and members are dropped, not kept in memory.
    static constexpr std::size_t kMaxPart = std::size_t{16} << 20;

    explicit TraceScanner(TraceBytes& bytes);

    // The next event, or member other than traceEvents. Parts that are not JSON are dropped; see broken().
    Part next();

    bool has_events() const { return has_events_; }  // whether there was an array traceEvents
    bool complete() const { return complete_; }      // whether the text ended where the outermost object does
    std::uint64_t offset() const { return start_ + pos_; }
    std::int64_t broken() const { return broken_; }  // stretches that were skipped
    std::uint64_t first_broken() const { return first_broken_; }

  private:
    enum class Scan { whole, too_large, broken, ended };
    enum class State { before, members, events, after };

    std::optional<Part> next_member();
    std::optional<Part> next_event();
    bool fill();
    int peek();  // the next byte that is not white space; -1 at the end
    int at(std::size_t i);
    Scan scan_value();
    Scan scan_string();
    std::optional<std::string> scan_key();
    std::string_view kept() const { return {window_.data() + keep_, pos_ - keep_}; }
    bool begins_event(std::size_t i);
    bool find_event();
    void resume();

    TraceBytes& bytes_;
    std::vector<char> window_;
    std::uint64_t start_ = 0;  // offset of the window's first byte in the text
    std::size_t keep_ = 0;     // first byte that must stay in the window
    std::size_t pos_ = 0;
    std::size_t end_ = 0;
    bool ended_ = false;  // no more bytes
    State state_ = State::before;
    std::string key_;  // of the last member
    bool has_events_ = false;
    bool complete_ = false;
    std::int64_t broken_ = 0;
    std::uint64_t first_broken_ = 0;
};

}  // namespace stoker
