#include "stoker/tune/measurement.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"

namespace stoker {
namespace {

using Json = nlohmann::json;
using std::chrono::nanoseconds;

template <std::size_t N>
Json counts_of(const std::array<nanoseconds, N>& times) {
    Json counts = Json::array();
    for (const nanoseconds time : times) {
        counts.push_back(time.count());
    }
    return counts;
}

template <std::size_t N>
void read_counts(const Json& counts, std::array<nanoseconds, N>& times) {
    for (std::size_t i = 0; i < N; ++i) {
        times[i] = nanoseconds(counts.at(i).get<std::int64_t>());
    }
}

// Calls `read` on the parsed line.
template <typename Read>
auto parse(const std::string& line, const Read& read) {
    try {
        return read(Json::parse(line));
    } catch (const Json::exception& error) {
        throw InternalError({.where = "trial",
                             .expected = "a line of JSON with its figures",
                             .got = line.substr(0, 200) + " (" + error.what() + ")"});
    }
}

}  // namespace

double slice_of(const Measurement& measured, double least) {
    constexpr double kSteps = 2;
    constexpr double kMost = 6;
    const double step = measured.seconds / static_cast<double>(std::max<std::int64_t>(measured.steps, 1));
    return std::clamp(kSteps * step, least, kMost);
}

std::string to_json(const Measurement& measurement) {
    return Json{{"images", measurement.images},
                {"steps", measurement.steps},
                {"seconds", measurement.seconds},
                {"cpu_seconds", measurement.cpu_seconds},
                {"peak_rss_mb", measurement.peak_rss_mb},
                {"device_bytes", measurement.device_bytes ? Json(*measurement.device_bytes) : Json(nullptr)},
                {"host_ns", counts_of(measurement.host.times)},
                {"workers_ns", counts_of(measurement.workers.times)},
                {"workers_samples", measurement.workers.samples},
                {"cached_bytes", measurement.cached_bytes}}
        .dump();
}

std::string to_json(const TrialFacts& facts) {
    return Json{
        {"device", facts.device},         {"samples", facts.samples},        {"trial_samples", facts.trial_samples},
        {"data_bytes", facts.data_bytes}, {"workers", facts.workers},        {"threads", facts.threads},
        {"cores", facts.cores},           {"format", facts.format},          {"codec", facts.codec},
        {"compiled", facts.compiled},     {"memory_left", facts.memory_left}}
        .dump();
}

Measurement parse_measurement(const std::string& line) {
    return parse(line, [](const Json& json) {
        Measurement measurement{.images = json.at("images").get<std::int64_t>(),
                                .steps = json.at("steps").get<std::int64_t>(),
                                .seconds = json.at("seconds").get<double>(),
                                .cpu_seconds = json.at("cpu_seconds").get<double>(),
                                .peak_rss_mb = json.at("peak_rss_mb").get<double>(),
                                .cached_bytes = json.at("cached_bytes").get<std::int64_t>()};
        if (const Json& bytes = json.at("device_bytes"); !bytes.is_null()) {
            measurement.device_bytes = bytes.get<std::int64_t>();
        }
        read_counts(json.at("host_ns"), measurement.host.times);
        read_counts(json.at("workers_ns"), measurement.workers.times);
        measurement.workers.samples = json.at("workers_samples").get<std::int64_t>();
        return measurement;
    });
}

TrialFacts parse_trial_facts(const std::string& line) {
    return parse(line, [](const Json& json) {
        return TrialFacts{.device = json.at("device").get<std::string>(),
                          .samples = json.at("samples").get<std::int64_t>(),
                          .trial_samples = json.at("trial_samples").get<std::int64_t>(),
                          .data_bytes = json.at("data_bytes").get<std::int64_t>(),
                          .workers = json.at("workers").get<int>(),
                          .threads = json.at("threads").get<int>(),
                          .cores = json.at("cores").get<double>(),
                          .format = json.at("format").get<std::string>(),
                          .codec = json.at("codec").get<std::string>(),
                          .compiled = json.at("compiled").get<std::string>(),
                          .memory_left = json.at("memory_left").get<double>()};
    });
}

}  // namespace stoker
