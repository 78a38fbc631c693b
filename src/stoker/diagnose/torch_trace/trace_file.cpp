#include "stoker/diagnose/torch_trace/trace_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/pluralize.h"
#include "stoker/diagnose/torch_trace/device_times.h"
#include "stoker/diagnose/torch_trace/event_parser.h"
#include "stoker/diagnose/torch_trace/trace_bytes.h"
#include "stoker/diagnose/torch_trace/trace_scanner.h"
#include "stoker/records/records.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

template <typename Number>
std::optional<Number> number_at(const Json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_number_integer()) {
        return {};
    }
    const auto value = found->get<std::int64_t>();
    return std::in_range<Number>(value) ? std::optional(static_cast<Number>(value)) : std::nullopt;
}

std::string text_at(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

void read_devices(const Json& properties, TraceEvents& trace) {
    for (const Json& device : properties) {
        if (device.is_object()) {
            trace.devices.push_back({.name = text_at(device, "name"),
                                     .memory_bytes = number_at<std::int64_t>(device, "totalGlobalMem"),
                                     .compute_major = number_at<int>(device, "computeMajor")});
        }
    }
}

void read_member(const TraceScanner::Part& part, TraceEvents& trace) {
    constexpr std::size_t kMaxMember = std::size_t{1} << 20;
    const bool known = part.key == "distributedInfo" || part.key == "deviceProperties" || part.key == "writer";
    if (!known || part.text.size() > kMaxMember) {
        return;
    }
    const Json value = parse_json<Json>(part.text);
    if (part.key == "deviceProperties" && value.is_array()) {
        read_devices(value, trace);
    } else if (part.key == "distributedInfo" && value.is_object()) {
        trace.rank = number_at<int>(value, "rank");
        trace.world_size = number_at<int>(value, "world_size");
        trace.backend = text_at(value, "backend");
    } else if (part.key == "writer" && value == kOwnWriter) {
        trace.writer = kOwnWriter;
    }
}

// The damage of the file, in one sentence; empty if there is none.
std::string problem_of(const TraceScanner& scanner, const TraceBytes& bytes, std::int64_t bad, std::uint64_t first_bad,
                       std::int64_t read) {
    const std::string rest = fmt::format("; {} before it are used", pluralize(read, "event"));
    if (bytes.damage()) {
        return *bytes.damage() + rest + ": copy the file again, or profile again";
    }
    if (!scanner.complete()) {
        return fmt::format(
            "it ends at byte {} in the middle of its JSON{}: wait until the profiler has written it, or "
            "profile again",
            scanner.offset(), rest);
    }
    if (bad > 0) {
        return fmt::format(
            "{} could not be read, the first at byte {}; {} are used: copy the file again, or profile "
            "again",
            pluralize(bad, "damaged event"), first_bad, pluralize(read, "event"));
    }
    return {};
}

TraceEvents read_trace(TraceBytes& bytes, const std::string& name) {
    TraceEvents trace;
    TraceScanner scanner(bytes);
    EventParser parser(trace);
    std::int64_t bad = 0;
    std::uint64_t first_bad = 0;
    for (TraceScanner::Part part = scanner.next(); part.kind != TraceScanner::Kind::end; part = scanner.next()) {
        if (part.kind == TraceScanner::Kind::member) {
            read_member(part, trace);
        } else if (!parser.add(part.text) && bad++ == 0) {
            first_bad = part.offset;
        }
    }
    if (!scanner.has_events()) {
        throw DataError({.path = name, .offset = static_cast<std::int64_t>(scanner.offset())},
                        {.where = "trace",
                         .expected = "a trace of torch.profiler: a JSON object with an array traceEvents",
                         .got = bytes.damage().value_or("none"),
                         .hint = name.ends_with(".toml")
                                     ? "this is a recipe: give the folder of its run, or run `stoker profile` on it"
                                     : "write one with prof.export_chrome_trace(\"trace.json.gz\"); what --json wrote "
                                       "is a verdict already"});
    }
    if (scanner.broken() > 0) {
        first_bad = bad == 0 ? scanner.first_broken() : std::min(first_bad, scanner.first_broken());
        bad += scanner.broken();
    }
    const std::string problem = problem_of(scanner, bytes, bad, first_bad, trace.read);
    if (!problem.empty()) {
        trace.problems.push_back(fmt::format("[{}] {}", name, problem));
    }
    if (trace.names.is_full() || trace.threads.is_full()) {
        trace.problems.push_back(
            fmt::format("[{}] more than {} names: the further ones are counted as one; leave numbers out of "
                        "record_function's names",
                        name, with_commas(static_cast<double>(TextTable::kMost))));
    }
    if (const std::int64_t lost = drop_work_without_time(trace); lost > 0) {
        trace.problems.push_back(fmt::format(
            "[{}] {} of the GPU without a time (ts 0) left out: profile again, with a newer PyTorch if this recurs",
            name, pluralize(lost, "event")));
    }
    for (const auto& [category, count] : trace.unknown) {
        trace.problems.push_back(fmt::format("[{}] {} of the unknown category \"{}\" left out of all times", name,
                                             pluralize(count, "event"), category));
    }
    return trace;
}

}  // namespace

TraceEvents read_trace_file(const std::filesystem::path& path) {
    TraceBytes bytes(path);
    return read_trace(bytes, path.string());
}

TraceEvents read_trace_bytes(std::span<const std::byte> bytes, const std::string& name) {
    TraceBytes text(bytes);
    return read_trace(text, name);
}

}  // namespace stoker
