// Reads only the members that are needed, in any order; of duplicate keys the last counts, as in Python.
#include "stoker/diagnose/torch_trace/event_parser.h"

#include <simdjson.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "stoker/diagnose/torch_trace/trace_scanner.h"

namespace stoker {
namespace {

namespace ondemand = simdjson::ondemand;

static_assert(simdjson::SIMDJSON_PADDING <= kTracePadding);

// `key` points behind the opening quote; the literal ends with the closing one. Keys with escapes match nothing.
template <std::size_t N>
bool is_key(const char* key, const char (&literal)[N]) {
    return std::memcmp(key, literal, N - 1) == 0;
}

// A number, or a number in quotes.
std::string_view number_text(std::string_view token) {
    if (!token.empty() && token.front() == '"') {
        token.remove_prefix(1);
        token = token.substr(0, token.find('"'));
    }
    const std::size_t last = token.find_last_not_of(" \t\r\n");
    return last == std::string_view::npos ? std::string_view() : token.substr(0, last + 1);
}

template <typename Number>
bool read_integer(std::string_view token, Number& value) {
    const std::string_view text = number_text(token);
    Number read{};
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), read);
    if (error != std::errc{} || stop != text.data() + text.size()) {
        return false;  // such as "0x0"
    }
    value = read;
    return true;
}

// The text between the quotes if nothing is escaped, which is the usual case, else simdjson's copy.
std::string_view string_of(ondemand::value value) {
    const std::string_view token = value.raw_json_token();
    if (token.size() >= 2 && token.front() == '"') {
        const std::string_view text = number_text(token);
        if (text.find('\\') == std::string_view::npos) {
            return text;
        }
    }
    std::string_view text;
    return value.get_string().get(text) == simdjson::SUCCESS ? text : std::string_view();
}

constexpr std::size_t kMaxText = 4096;  // longer names and shapes are cut

constexpr std::array<std::pair<std::string_view, EventKind>, 30> kCategories = {{
    {"cpu_op", EventKind::op},
    {"Operator", EventKind::op},
    {"python_function", EventKind::python},
    {"cuda_runtime", EventKind::runtime},
    {"kernel", EventKind::kernel},
    {"user_annotation", EventKind::annotation},
    {"cuda_driver", EventKind::runtime},
    {"gpu_memcpy", EventKind::memcpy},
    {"gpu_memset", EventKind::memset},
    {"gpu_user_annotation", EventKind::device_annotation},
    {"hip_runtime", EventKind::runtime},
    {"xpu_runtime", EventKind::runtime},
    {"mtia_runtime", EventKind::runtime},
    {"Runtime", EventKind::runtime},
    {"Kernel", EventKind::kernel},
    {"Memcpy", EventKind::memcpy},
    {"Memset", EventKind::memset},
    {"User Annotation", EventKind::annotation},
    {"mtia_ccp_events", EventKind::device_other},
    {"xpu_driver", EventKind::runtime},
    {"privateuse1_runtime", EventKind::runtime},
    {"privateuse1_driver", EventKind::runtime},
    {"cuda_sync", EventKind::other},
    {"xpu_sync", EventKind::other},
    {"cuda_event", EventKind::other},
    {"graph_event_node", EventKind::other},
    {"overhead", EventKind::other},
    {"hardware_counters", EventKind::other},
    {"collective_comm", EventKind::other},
    {"cuda_profiler_range", EventKind::other},
}};

// Unknown categories are `other`, and counted.
EventKind kind_of(std::string_view category, TraceEvents& trace) {
    constexpr std::size_t kMost = 16;
    for (const auto& [name, kind] : kCategories) {
        if (name == category) {
            return kind;
        }
    }
    const std::string unknown(category.substr(0, kMaxText));
    ++trace.unknown[trace.unknown.size() < kMost || trace.unknown.contains(unknown) ? unknown : "others"];
    return EventKind::other;
}

// The fields of an event, before it is known whether it is kept.
struct Fields {
    std::string_view category = {};
    std::string_view name = {};
    std::string_view process = {};
    std::string_view thread = {};
    std::optional<std::int64_t> start = {};
    std::optional<std::int64_t> duration = {};
    bool has_duration = false;
    std::int64_t correlation = -1;
    std::int64_t bytes = 0;
    std::int64_t stream = -1;
    std::int16_t device = -1;
    std::string_view shapes = {};
    std::string_view types = {};
    // For an event "[memory]".
    std::int64_t allocated = -1;
    int device_type = -1;
};

std::string_view array_text(ondemand::value value) {
    ondemand::array array;
    std::string_view text;
    if (value.get_array().get(array) != simdjson::SUCCESS || array.raw_json().get(text) != simdjson::SUCCESS) {
        return {};
    }
    return text;
}

void read_argument(const char* key, ondemand::value value, Fields& fields) {
    switch (key[0]) {
        case 's':
            if (is_key(key, "stream\"")) {
                read_integer(value.raw_json_token(), fields.stream);
            }
            break;
        case 'c':
            if (is_key(key, "correlation\"")) {
                read_integer(value.raw_json_token(), fields.correlation);
            }
            break;
        case 'd':
            if (is_key(key, "device\"")) {
                read_integer(value.raw_json_token(), fields.device);
            }
            break;
        case 'b':
            if (is_key(key, "bytes\"")) {
                read_integer(value.raw_json_token(), fields.bytes);
            }
            break;
        case 'I':
            if (is_key(key, "Input Dims\"")) {
                fields.shapes = array_text(value);
            } else if (is_key(key, "Input type\"")) {
                fields.types = array_text(value);
            }
            break;
        case 'T':
            if (is_key(key, "Total Allocated\"")) {
                read_integer(value.raw_json_token(), fields.allocated);
            }
            break;
        case 'D':
            if (is_key(key, "Device Type\"")) {
                read_integer(value.raw_json_token(), fields.device_type);
            }
            break;
        default:
            break;
    }
}

bool read_arguments(ondemand::value value, Fields& fields) {
    ondemand::object arguments;
    if (value.get_object().get(arguments) != simdjson::SUCCESS) {
        return true;  // of another type: no arguments
    }
    for (auto member : arguments) {
        ondemand::field field;
        if (std::move(member).get(field) != simdjson::SUCCESS) {
            return false;
        }
        read_argument(field.key().raw(), field.value(), fields);
    }
    return true;
}

bool read_member(const char* key, ondemand::value value, Fields& fields, bool& fractional) {
    if (is_key(key, "cat\"")) {
        fields.category = string_of(value);
    } else if (is_key(key, "name\"")) {
        fields.name = string_of(value);
    } else if (is_key(key, "pid\"")) {
        fields.process = number_text(value.raw_json_token());
    } else if (is_key(key, "tid\"")) {
        fields.thread = number_text(value.raw_json_token());
    } else if (is_key(key, "ts\"")) {
        fields.start = parse_microseconds(number_text(value.raw_json_token()), fractional);
    } else if (is_key(key, "dur\"")) {
        bool ignored = false;
        fields.duration = parse_microseconds(number_text(value.raw_json_token()), ignored);
        fields.has_duration = true;
    } else if (is_key(key, "args\"")) {
        return read_arguments(value, fields);
    }
    return true;
}

}  // namespace

struct EventParser::Parser {
    ondemand::parser json;
    std::string thread;
};

EventParser::EventParser(TraceEvents& trace) : trace_(trace), parser_(std::make_unique<Parser>()) {}
EventParser::~EventParser() = default;

bool EventParser::add(std::string_view text) {
    ondemand::document document;
    ondemand::object object;
    if (parser_->json.iterate(text, text.size() + kTracePadding).get(document) != simdjson::SUCCESS ||
        document.get_object().get(object) != simdjson::SUCCESS) {
        return false;
    }
    Fields fields;
    bool fractional = false;
    for (auto member : object) {
        ondemand::field field;
        if (std::move(member).get(field) != simdjson::SUCCESS ||
            !read_member(field.key().raw(), field.value(), fields, fractional)) {
            return false;
        }
    }
    ++trace_.read;
    trace_.fractional = trace_.fractional || fractional || !fields.start;
    if (fields.device_type == 1 && fields.allocated >= 0 && fields.name == "[memory]") {
        trace_.peak_device_bytes = std::max(trace_.peak_device_bytes.value_or(0), fields.allocated);
    }
    if (!fields.start || !fields.duration || fields.category.empty() || fields.category == "Trace") {
        return true;
    }
    parser_->thread.assign(fields.process).append(" ").append(fields.thread);
    trace_.events.push_back({.start_ns = *fields.start,
                             .duration_ns = *fields.duration,
                             .correlation = fields.correlation,
                             .bytes = fields.bytes,
                             .stream = fields.stream,
                             .name = trace_.names.number(fields.name.substr(0, kMaxText)),
                             .thread = trace_.threads.number(parser_->thread),
                             .shapes = trace_.names.number(fields.shapes.substr(0, kMaxText)),
                             .types = trace_.names.number(fields.types.substr(0, kMaxText)),
                             .device = fields.device,
                             .kind = kind_of(fields.category, trace_)});
    return true;
}

std::optional<std::int64_t> parse_microseconds(std::string_view text, bool& fractional) {
    // 95 years. In nanoseconds, a start and a duration of this size add up to an end that fits into 64 bits, and so
    // does the time from one of them to the other.
    constexpr std::int64_t kMax = std::int64_t{3'000'000'000'000'000};
    const char* at = text.data();
    const char* end = at + text.size();
    std::int64_t whole = 0;
    const bool negative = at != end && *at == '-';
    const auto [stop, error] = std::from_chars(at, end, whole);
    if (error == std::errc{} && stop == end && whole <= kMax && whole >= -kMax) {
        return whole * 1000;
    }
    if (error == std::errc{} && *stop == '.' && whole <= kMax && whole >= -kMax) {
        std::int64_t nanoseconds = 0;
        std::int64_t scale = 100;
        for (at = stop + 1; at != end && *at >= '0' && *at <= '9'; ++at, scale /= 10) {
            nanoseconds += (*at - '0') * scale;
        }
        if (at == end) {
            fractional = true;
            return whole * 1000 + (negative ? -nanoseconds : nanoseconds);
        }
    }
    double value = 0;
    const auto [last, problem] = std::from_chars(text.data(), end, value);
    if (problem != std::errc{} || last != end || !(std::abs(value) <= static_cast<double>(kMax))) {
        return {};
    }
    fractional = true;
    return static_cast<std::int64_t>(std::llround(value * 1000));
}

}  // namespace stoker
