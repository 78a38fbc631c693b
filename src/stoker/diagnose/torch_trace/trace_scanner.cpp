// A part's end is found by counting brackets outside of strings; whether it is JSON is for its parser to say. After
// damage, reading resumes at the next text that looks like the start of an event.
#include "stoker/diagnose/torch_trace/trace_scanner.h"

#include <array>
#include <cstring>

namespace stoker {
namespace {

constexpr std::size_t kWindow = std::size_t{1} << 20;

enum Class : unsigned char { other, quote, backslash, open, close, control };

constexpr std::array<Class, 256> kClasses = [] {
    std::array<Class, 256> classes{};
    for (std::size_t c = 0; c < 0x20; ++c) {
        classes[c] = control;
    }
    classes['"'] = quote;
    classes['\\'] = backslash;
    classes['{'] = classes['['] = open;
    classes['}'] = classes[']'] = close;
    return classes;
}();

Class class_of(char c) {
    return kClasses[static_cast<unsigned char>(c)];
}

bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

}  // namespace

TraceScanner::TraceScanner(TraceBytes& bytes) : bytes_(bytes), window_(kWindow + kTracePadding) {}

// Moves what is kept to the front of the window and reads on. False at the end of the text.
bool TraceScanner::fill() {
    if (ended_) {
        return false;
    }
    const std::size_t kept = end_ - keep_;
    std::memmove(window_.data(), window_.data() + keep_, kept);
    start_ += keep_;
    pos_ -= keep_;
    end_ = kept;
    keep_ = 0;
    if (kept > window_.size() / 2) {
        window_.resize(window_.size() * 2);  // scan_value keeps at most kMaxPart
    }
    const std::size_t count = bytes_.read(std::span(window_).subspan(end_, window_.size() - kTracePadding - end_));
    end_ += count;
    ended_ = count == 0;
    return !ended_;
}

int TraceScanner::peek() {
    while (true) {
        while (pos_ < end_ && is_space(window_[pos_])) {
            ++pos_;
        }
        keep_ = pos_;
        if (pos_ < end_) {
            return static_cast<unsigned char>(window_[pos_]);
        }
        if (!fill()) {
            return -1;
        }
    }
}

// From behind the opening quote to behind the closing one.
TraceScanner::Scan TraceScanner::scan_string() {
    while (true) {
        while (pos_ < end_) {
            const Class c = class_of(window_[pos_]);
            if (c == quote) {
                ++pos_;
                return Scan::whole;
            }
            if (c == control) {
                return Scan::broken;
            }
            if (c == backslash && pos_ + 1 == end_) {
                break;  // the escaped byte is not here yet
            }
            pos_ += c == backslash ? 2 : 1;
        }
        if (pos_ - keep_ > kMaxPart) {
            keep_ = pos_;
        }
        if (!fill()) {
            return Scan::ended;
        }
    }
}

// From the first byte of an object, array, string, number or literal to behind its last.
TraceScanner::Scan TraceScanner::scan_value() {
    const std::uint64_t begin = offset();
    std::size_t depth = 0;
    while (true) {
        for (; pos_ < end_; ++pos_) {
            const char c = window_[pos_];
            const Class kind = class_of(c);
            if (kind == quote) {
                ++pos_;
                const Scan scan = scan_string();
                if (scan != Scan::whole) {
                    return scan;
                }
                --pos_;
            } else if (kind == open) {
                if (depth > 0 && state_ == State::events && begins_event(pos_ - keep_)) {
                    return Scan::broken;  // the end of the outer one is missing
                }
                ++depth;
            } else if (kind == control && !is_space(c)) {
                return Scan::broken;
            } else if (depth == 0 && (kind == close || c == ',')) {
                return offset() - begin > kMaxPart ? Scan::too_large : Scan::whole;
            } else if (kind == close && --depth == 0) {
                ++pos_;
                return offset() - begin > kMaxPart ? Scan::too_large : Scan::whole;
            }
        }
        if (pos_ - keep_ > kMaxPart) {
            keep_ = pos_;
        }
        if (!fill()) {
            return Scan::ended;
        }
    }
}

std::optional<std::string> TraceScanner::scan_key() {
    if (peek() != '"') {
        return {};
    }
    ++pos_;
    if (scan_string() != Scan::whole) {
        return {};
    }
    const std::string_view text = kept();
    std::string key(text.substr(1, text.size() - 2));
    if (peek() != ':') {
        return {};
    }
    ++pos_;
    return key;
}

// The byte `i` behind the kept one; -1 at the end.
int TraceScanner::at(std::size_t i) {
    while (keep_ + i >= end_) {
        if (!fill()) {
            return -1;
        }
    }
    return static_cast<unsigned char>(window_[keep_ + i]);
}

// Whether `{"ph"`, which begins each event that the profiler writes, stands `i` bytes behind the kept one.
bool TraceScanner::begins_event(std::size_t i) {
    constexpr std::size_t kMaxSpace = 256;
    const std::size_t limit = i + kMaxSpace;
    if (at(i) != '{') {
        return false;
    }
    ++i;
    while (i < limit && at(i) != -1 && is_space(static_cast<char>(at(i)))) {
        ++i;
    }
    return at(i) == '"' && at(i + 1) == 'p' && at(i + 2) == 'h' && at(i + 3) == '"';
}

// Moves to the next event. False if there is none.
bool TraceScanner::find_event() {
    while (true) {
        keep_ = pos_;
        if (at(0) == -1) {
            return false;
        }
        const void* found = std::memchr(window_.data() + pos_, '{', end_ - pos_);
        if (found == nullptr) {
            pos_ = end_;
            continue;
        }
        pos_ = static_cast<std::size_t>(static_cast<const char*>(found) - window_.data());
        keep_ = pos_;
        if (begins_event(0)) {
            return true;
        }
        ++pos_;
    }
}

// Notes the damage here and continues with the next event, if there is one.
void TraceScanner::resume() {
    if (broken_++ == 0) {
        first_broken_ = offset();
    }
    state_ = find_event() ? State::events : State::after;
}

std::optional<TraceScanner::Part> TraceScanner::next_member() {
    if (state_ == State::members && peek() == ',') {
        ++pos_;
    }
    if (peek() == '}') {
        ++pos_;
        complete_ = true;
        state_ = State::after;
        return {};
    }
    std::optional<std::string> key = scan_key();
    if (!key && has_events_ && peek() != -1) {
        resume();  // damage looked like the end of the events
        return {};
    }
    if (!key) {
        state_ = State::after;
        return {};
    }
    const int first = peek();
    if (*key == "traceEvents" && first == '[') {
        ++pos_;
        has_events_ = true;
        state_ = State::events;
        return {};
    }
    const std::uint64_t begin = offset();
    const Scan scan = scan_value();
    if (scan == Scan::ended || scan == Scan::broken) {
        state_ = State::after;
        return {};
    }
    key_ = std::move(*key);
    return Part{
        .kind = Kind::member, .key = key_, .text = scan == Scan::whole ? kept() : std::string_view(), .offset = begin};
}

std::optional<TraceScanner::Part> TraceScanner::next_event() {
    int first = peek();
    if (first == ',') {
        ++pos_;
        first = peek();
    }
    if (first == ']') {
        ++pos_;
        state_ = State::members;
        return {};
    }
    if (first == -1) {
        state_ = State::after;
        return {};
    }
    const std::uint64_t begin = offset();
    const Scan scan = first == '{' ? scan_value() : Scan::broken;
    if (scan == Scan::whole) {
        return Part{.kind = Kind::event, .text = kept(), .offset = begin};
    }
    if (scan == Scan::ended) {
        state_ = State::after;
        return {};
    }
    resume();
    return {};
}

TraceScanner::Part TraceScanner::next() {
    if (state_ == State::before) {
        const bool object = peek() == '{';
        state_ = object ? State::members : State::after;
        pos_ += object ? 1 : 0;
    }
    while (state_ != State::after) {
        const std::optional<Part> part = state_ == State::events ? next_event() : next_member();
        if (part) {
            return *part;
        }
    }
    return {};
}

}  // namespace stoker
