#include "stoker/records/records_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "stoker/base/json_depth.h"

namespace stoker {
namespace {

using Json = nlohmann::ordered_json;

double microseconds(std::chrono::nanoseconds time) {
    return static_cast<double>(time.count()) / 1000;
}

std::chrono::nanoseconds nanoseconds(double us) {
    constexpr double kMost = 1e15;  // eleven days; a damaged file may have any number, and sums must fit
    return std::chrono::nanoseconds(static_cast<std::int64_t>(std::clamp(us * 1000, -kMost, kMost)));
}

Json json_of(const PhaseTimes& times) {
    Json json = Json::object();
    for (std::size_t i = 0; i < kPhases; ++i) {
        if (times[i].count() != 0) {
            json[std::string(phase_name(static_cast<Phase>(i)))] = microseconds(times[i]);
        }
    }
    return json;
}

Json json_of(const StageTimes& times) {
    Json json = {{"samples", times.samples}};
    if (times.on_device != 0) {
        json["on_device"] = times.on_device;
    }
    if (times.cpu.count() != 0) {  // workers = 0: the training thread loads, and its CPU time is not measured
        json["cpu"] = microseconds(times.cpu);
    }
    for (std::size_t i = 0; i < kStages; ++i) {
        json[std::string(stage_name(static_cast<Stage>(i)))] = microseconds(times.times[i]);
    }
    return json;
}

// One list of an entry's fields serves writing and reading: `visit(key, member)` for each.
template <typename Facts, typename Visit>
requires std::is_same_v<std::remove_const_t<Facts>, HostFacts>
void fields(Facts& facts, Visit visit) {
    visit("cores", facts.cores);
    visit("affinity", facts.affinity);
    visit("ranks", facts.ranks);
    visit("memory_bytes", facts.memory_bytes);
    visit("avx512_vbmi2", facts.avx512_vbmi2);
}

template <typename Facts, typename Visit>
requires std::is_same_v<std::remove_const_t<Facts>, DeviceFacts>
void fields(Facts& facts, Visit visit) {
    visit("type", facts.type);
    visit("name", facts.name);
    visit("count", facts.count);
    visit("memory_bytes", facts.memory_bytes);
    visit("compute_major", facts.compute_major);
    visit("tensor_cores", facts.tensor_cores);
    visit("fp32_flops", facts.fp32_flops);
    visit("bf16_speedup", facts.bf16_speedup);
    visit("half_speedup", facts.half_speedup);
}

template <typename Facts, typename Visit>
requires std::is_same_v<std::remove_const_t<Facts>, DataFacts>
void fields(Facts& facts, Visit visit) {
    visit("path", facts.path);
    visit("format", facts.format);
    visit("codec", facts.codec);
    visit("storage", facts.storage);
    visit("samples", facts.samples);
    visit("sample_bytes", facts.sample_bytes);
    visit("image_bytes", facts.image_bytes);
    visit("loader", facts.loader);
    visit("iterable", facts.iterable);
    visit("workers", facts.workers);
    visit("prefetch", facts.prefetch);
    visit("pinned", facts.pinned);
    visit("persistent", facts.persistent);
    visit("shuffle", facts.shuffle);
    visit("drop_last", facts.drop_last);
    visit("cache", facts.cache);
    visit("decode", facts.decode);
    visit("decode_on", facts.decode_on);
    visit("place", facts.place);
    visit("stoker_samples_per_second", facts.stoker_samples_per_second);
}

template <typename Facts, typename Visit>
requires std::is_same_v<std::remove_const_t<Facts>, TrainFacts>
void fields(Facts& facts, Visit visit) {
    visit("model", facts.model);
    visit("parameters", facts.parameters);
    visit("batch_size", facts.batch_size);
    visit("steps_per_epoch", facts.steps_per_epoch);
    visit("val_samples", facts.val_samples);
    visit("epochs_per_evaluation", facts.epochs_per_evaluation);
    visit("precision", facts.precision);
    visit("optimizer", facts.optimizer);
    visit("optimizer_kernel", facts.optimizer_kernel);
    visit("compiled", facts.compiled);
    visit("accumulate", facts.accumulate);
    visit("threads", facts.threads);
    visit("thread_speedup", facts.thread_speedup);
    visit("matmul_flops", facts.matmul_flops);
    visit("stages", facts.stages);
    visit("pipeline", facts.pipeline);
    visit("collectives", facts.collectives);
    visit("optimizer_place", facts.optimizer_place);
    visit("evaluation_place", facts.evaluation_place);
    visit("val_loader_place", facts.val_loader_place);
    visit("val_workers", facts.val_workers);
    visit("checkpoint_place", facts.checkpoint_place);
}

template <typename Entry, typename Visit>
void counter_fields(Entry& entry, Visit visit) {
    visit("after_us", entry.after_us);
    visit("start_us", entry.start_us);
    visit("core_wait_us", entry.core_wait_us);
    visit("user_seconds", entry.user_seconds);
    visit("system_seconds", entry.system_seconds);
    visit("rss_bytes", entry.rss_bytes);
    visit("read_bytes", entry.read_bytes);
    visit("major_faults", entry.major_faults);
    visit("device_bytes", entry.device_bytes);
    visit("gpu_done_us", entry.gpu_done_us);
    visit("gpu_busy_us", entry.gpu_busy_us);
    visit("gpu_celsius", entry.gpu_celsius);
    visit("gpu_clock_share", entry.gpu_clock_share);
    visit("gpu_clock_limit", entry.gpu_clock_limit);
    visit("busy_share", entry.busy_share);
    visit("iowait_share", entry.iowait_share);
    visit("steal_share", entry.steal_share);
    visit("throttled_share", entry.throttled_share);
    visit("swap_in_bytes_per_second", entry.swap_in_bytes_per_second);
}

// Writes what is known.
struct Writer {
    Json& json;
    template <typename T>
    void operator()(const char* key, const std::optional<T>& value) const {
        if (value) {
            json[key] = *value;
        }
    }
    void operator()(const char* key, const std::string& value) const {
        if (!value.empty()) {
            json[key] = value;
        }
    }
    void operator()(const char* key, int value) const { json[key] = value; }
};

// Reads what has the right type and ignores the rest.
struct Reader {
    const Json& json;
    template <typename T>
    void operator()(const char* key, std::optional<T>& value) const {
        T read{};
        if (json.contains(key) && take(json[key], read)) {
            value = read;
        }
    }
    template <typename T>
    void operator()(const char* key, T& value) const {
        if (json.contains(key)) {
            take(json[key], value);
        }
    }
    template <typename T>
    static bool take(const Json& from, T& value) {
        if constexpr (std::is_same_v<T, bool>) {
            return from.is_boolean() && (from.get_to(value), true);
        } else if constexpr (std::is_same_v<T, std::string>) {
            return from.is_string() && (from.get_to(value), true);
        } else if constexpr (std::is_integral_v<T>) {
            if (!from.is_number_integer() || !std::in_range<T>(from.get<std::int64_t>())) {
                return false;
            }
            value = from.get<T>();
            return true;
        } else {
            return from.is_number() && (from.get_to(value), true);
        }
    }
};

// A damaged file may have any number, and sums of steps and samples must fit.
constexpr std::int64_t kMostCount = std::int64_t{1} << 40;

void read_count(const Reader& read, const char* key, std::int64_t& count) {
    read(key, count);
    count = std::clamp<std::int64_t>(count, 0, kMostCount);
}

void read_count(const Reader& read, const char* key, std::optional<std::int64_t>& count) {
    read(key, count);
    if (count) {
        count = std::clamp<std::int64_t>(*count, 0, kMostCount);
    }
}

template <typename Facts>
Json facts_json(const Facts& facts) {
    Json json = Json::object();
    fields(facts, Writer{json});
    return json;
}

const Json& part(const Json& json, const char* key) {
    static const Json kNothing = Json::object();
    const auto found = json.find(key);
    return found != json.end() && found->is_object() ? *found : kNothing;
}

PhaseTimes phases_from(const Json& json) {
    PhaseTimes times{};
    for (std::size_t i = 0; i < kPhases; ++i) {
        double us = 0;
        Reader{json}(std::string(phase_name(static_cast<Phase>(i))).c_str(), us);
        times[i] = nanoseconds(us);
    }
    return times;
}

std::optional<StageTimes> stages_from(const Json& line) {
    if (!line.contains("workers_us")) {
        return std::nullopt;
    }
    const Json& json = part(line, "workers_us");
    StageTimes stages;
    read_count(Reader{json}, "samples", stages.samples);
    read_count(Reader{json}, "on_device", stages.on_device);
    double cpu = 0;
    Reader{json}("cpu", cpu);
    stages.cpu = nanoseconds(cpu);
    for (std::size_t i = 0; i < kStages; ++i) {
        double us = 0;
        Reader{json}(std::string(stage_name(static_cast<Stage>(i))).c_str(), us);
        stages.times[i] = nanoseconds(us);
    }
    return stages;
}

void add_facts(const Json& line, RankRecords& rank) {
    RunFacts facts{.rank = rank.facts.rank};
    const Reader read{line};
    read("writer", facts.writer);
    read("program", facts.program);
    read("world_size", facts.world_size);
    fields(facts.host, Reader{part(line, "host")});
    fields(facts.device, Reader{part(line, "device")});
    fields(facts.data, Reader{part(line, "data")});
    fields(facts.train, Reader{part(line, "train")});
    rank.facts = std::move(facts);
}

bool is_profiled(const Json& line) {
    bool profiled = false;
    Reader{line}("profiled", profiled);
    return profiled;
}

void add_step(const Json& line, RankRecords& rank) {
    StepEntry step;
    const Reader read{line};
    if (is_profiled(line)) {
        return;
    }
    read_count(read, "step", step.step);
    read_count(read, "epoch", step.epoch);
    read_count(read, "samples", step.samples);
    read("ready", step.ready);
    read("copy_bytes", step.copy_bytes);
    step.host.times = phases_from(part(line, "us"));
    rank.steps.push_back(step);
}

template <typename Take>
void for_each_object(const Json& line, const char* key, Take take) {
    const auto list = line.find(key);
    if (list == line.end() || !list->is_array()) {
        return;
    }
    for (const Json& entry : *list) {
        if (entry.is_object()) {
            take(Reader{entry});
        }
    }
}

void add_interval(const Json& line, RankRecords& rank) {
    IntervalEntry interval;
    const Reader read{line};
    read_count(read, "first_step", interval.first_step);
    read_count(read, "last_step", interval.last_step);
    read("seconds", interval.seconds);
    interval.host.times = phases_from(part(line, "us"));
    interval.workers = stages_from(line);
    counter_fields(interval, read);
    for_each_object(line, "syncs", [&](const Reader& entry) {
        SyncEntry& sync = interval.syncs.emplace_back();
        entry("place", sync.place);
        read_count(entry, "count", sync.count);
        entry("us", sync.us);
    });
    for_each_object(line, "lines", [&](const Reader& entry) {
        LineEntry& at = interval.lines.emplace_back();
        entry("place", at.place);
        entry("per_step", at.per_step);
        entry("us", at.us);
    });
    rank.intervals.push_back(interval);
}

void add_evaluation(const Json& line, RankRecords& rank) {
    EvaluationEntry evaluation;
    const Reader read{line};
    if (is_profiled(line)) {
        return;
    }
    read_count(read, "step", evaluation.step);
    read_count(read, "samples", evaluation.samples);
    evaluation.host.times = phases_from(part(line, "us"));
    evaluation.workers = stages_from(line);
    rank.evaluations.push_back(evaluation);
}

void add_functions(const Json& line, RankRecords& rank) {
    FunctionProfile profile;
    read_count(Reader{line}, "steps", profile.steps);
    for_each_object(line, "functions", [&](const Reader& entry) {
        FunctionEntry& function = profile.functions.emplace_back();
        entry("name", function.name);
        entry("place", function.place);
        read_count(entry, "count", function.count);
        entry("self_us", function.self_us);
        entry("total_us", function.total_us);
    });
    rank.functions = std::move(profile);
}

// Null for a rank that no run has.
RankRecords* rank_of(const Json& line, RunRecords& records) {
    constexpr int kMost = 16384;
    int number = 0;
    Reader{line}("rank", number);
    if (number < 0 || number >= kMost) {
        return nullptr;
    }
    const auto found =
        std::ranges::find_if(records.ranks, [&](const RankRecords& rank) { return rank.facts.rank >= number; });
    if (found != records.ranks.end() && found->facts.rank == number) {
        return &*found;
    }
    return &*records.ranks.insert(found, RankRecords{.facts = {.rank = number}});
}

std::string line_of(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string to_json_line(const RunFacts& facts, std::int64_t step) {
    return line_of({{"type", "facts"},
                    {"schema", kRecordsSchema},
                    {"step", step},
                    {"writer", facts.writer},
                    {"rank", facts.rank},
                    {"world_size", facts.world_size},
                    {"host", facts_json(facts.host)},
                    {"device", facts_json(facts.device)},
                    {"data", facts_json(facts.data)},
                    {"train", facts_json(facts.train)}});
}

std::string to_json_line(const IntervalEntry& interval, int rank) {
    Json json = {{"type", "interval"},
                 {"schema", kRecordsSchema},
                 {"step", interval.last_step},
                 {"rank", rank},
                 {"first_step", interval.first_step},
                 {"last_step", interval.last_step},
                 {"seconds", interval.seconds},
                 {"us", json_of(interval.host.times)}};
    if (interval.workers) {
        json["workers_us"] = json_of(*interval.workers);
    }
    if (!interval.syncs.empty()) {
        json["syncs"] = Json::array();
        for (const SyncEntry& sync : interval.syncs) {
            json["syncs"].push_back({{"place", sync.place}, {"count", sync.count}, {"us", sync.us}});
        }
    }
    for (const LineEntry& at : interval.lines) {
        Json entry = {{"place", at.place}, {"us", at.us}};
        Writer{entry}("per_step", at.per_step);
        json["lines"].push_back(entry);
    }
    counter_fields(interval, Writer{json});
    return line_of(json);
}

std::string to_json_line(const EvaluationEntry& evaluation, int rank) {
    Json json = {{"type", "evaluation"}, {"schema", kRecordsSchema}, {"rank", rank}, {"step", evaluation.step}};
    Writer{json}("samples", evaluation.samples);
    json["us"] = json_of(evaluation.host.times);
    if (evaluation.workers) {
        json["workers_us"] = json_of(*evaluation.workers);
    }
    return line_of(json);
}

std::string marked_as_profiled(std::string line, const std::function<bool(std::string_view, std::int64_t)>& profiled) {
    Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    std::string type;
    std::int64_t step = 0;
    if (json.is_object()) {
        Reader{json}("type", type);
        Reader{json}("step", step);
    }
    if (type.empty() || !profiled(type, step)) {
        return line;
    }
    json["profiled"] = true;
    return line_of(json);
}

std::string add_record(std::string_view line, RunRecords& records) {
    const Json json = parse_json<Json>(line);
    std::string type;
    if (json.is_object()) {
        Reader{json}("type", type);
    }
    if (type.empty()) {
        return "not a JSON object with a \"type\"";
    }
    constexpr std::array<std::string_view, 5> kTypes = {"facts", "step", "interval", "evaluation", "functions"};
    if (std::ranges::find(kTypes, type) == kTypes.end()) {
        return "";
    }
    int schema = 0;
    Reader{json}("schema", schema);
    if (schema != kRecordsSchema) {
        return "schema " + std::to_string(schema) + " and not " + std::to_string(kRecordsSchema);
    }
    RankRecords* const rank = rank_of(json, records);
    if (rank == nullptr) {
        return "a rank that no run has";
    }
    if (type == "facts") {
        add_facts(json, *rank);
    } else if (type == "step") {
        add_step(json, *rank);
    } else if (type == "interval") {
        add_interval(json, *rank);
    } else if (type == "evaluation") {
        add_evaluation(json, *rank);
    } else {
        add_functions(json, *rank);
    }
    return "";
}

}  // namespace stoker
