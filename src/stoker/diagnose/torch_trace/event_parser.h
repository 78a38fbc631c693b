// One event's JSON -> TraceEvent.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "stoker/diagnose/torch_trace/trace_events.h"

namespace stoker {

class EventParser {
  public:
    explicit EventParser(TraceEvents& trace);
    EventParser(const EventParser&) = delete;
    EventParser& operator=(const EventParser&) = delete;
    ~EventParser();

    // Adds the event to the trace if it has a duration and a category. kTracePadding bytes behind `text` must be
    // readable. Returns false if it is not a JSON object.
    bool add(std::string_view text);

  private:
    struct Parser;

    TraceEvents& trace_;
    std::unique_ptr<Parser> parser_;
};

// "1234.567" microseconds as 1234567 ns, without a detour through a double. Empty for a text that is not a number, or
// one beyond 95 years. `fractional` becomes true if the text is not an integer.
std::optional<std::int64_t> parse_microseconds(std::string_view text, bool& fractional);

}  // namespace stoker
