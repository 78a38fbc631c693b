// One list of an entry's keys serves writing and reading: `visit("key", member, ...)`, in the order of a line.
#include "stoker/records/records_json.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>

#include "stoker/base/json_depth.h"

namespace stoker {
namespace {

using Json = nlohmann::ordered_json;

template <typename T, typename Entry>
concept Of = std::same_as<std::remove_const_t<T>, Entry>;

void fields(Of<HostFacts> auto& host, const auto& visit) {
    visit("cores", host.cores, "affinity", host.affinity, "ranks", host.ranks, "memory_bytes", host.memory_bytes,
          "avx512_vbmi2", host.avx512_vbmi2, "processor", host.processor);
}

void fields(Of<SoftwareFacts> auto& software, const auto& visit) {
    visit("stoker", software.stoker, "torch", software.torch, "cuda", software.cuda, "python", software.python);
}

void fields(Of<DeviceFacts> auto& device, const auto& visit) {
    visit("type", device.type, "name", device.name, "count", device.count, "memory_bytes", device.memory_bytes,
          "compute_major", device.compute_major, "tensor_cores", device.tensor_cores, "fp32_flops", device.fp32_flops,
          "bf16_speedup", device.bf16_speedup, "half_speedup", device.half_speedup);
}

void fields(Of<DataFacts> auto& data, const auto& visit) {
    visit("path", data.path, "format", data.format, "codec", data.codec, "storage", data.storage, "samples",
          data.samples, "sample_bytes", data.sample_bytes, "image_bytes", data.image_bytes, "loader", data.loader,
          "iterable", data.iterable, "workers", data.workers, "prefetch", data.prefetch, "pinned", data.pinned,
          "persistent", data.persistent, "shuffle", data.shuffle, "drop_last", data.drop_last, "cache", data.cache,
          "decode", data.decode, "decode_on", data.decode_on, "place", data.place, "stoker_samples_per_second",
          data.stoker_samples_per_second);
}

void fields(Of<TrainFacts> auto& train, const auto& visit) {
    visit("model", train.model, "parameters", train.parameters, "batch_size", train.batch_size, "steps_per_epoch",
          train.steps_per_epoch, "val_samples", train.val_samples, "epochs_per_evaluation", train.epochs_per_evaluation,
          "precision", train.precision, "optimizer", train.optimizer, "optimizer_kernel", train.optimizer_kernel,
          "compiled", train.compiled, "accumulate", train.accumulate, "threads", train.threads, "thread_speedup",
          train.thread_speedup, "matmul_flops", train.matmul_flops, "stages", train.stages, "pipeline", train.pipeline,
          "collectives", train.collectives, "optimizer_place", train.optimizer_place, "evaluation_place",
          train.evaluation_place, "val_loader_place", train.val_loader_place, "val_workers", train.val_workers,
          "checkpoint_place", train.checkpoint_place);
}

void fields(Of<RunFacts> auto& facts, const auto& visit) {
    visit("writer", facts.writer, "rank", facts.rank, "world_size", facts.world_size, "program", facts.program,
          "software", facts.software, "host", facts.host, "device", facts.device, "data", facts.data, "train",
          facts.train);
}

void fields(Of<SyncEntry> auto& sync, const auto& visit) {
    visit("place", sync.place);
    visit.counts("count", sync.count);
    visit("us", sync.us);
}

void fields(Of<LineEntry> auto& line, const auto& visit) {
    visit("place", line.place, "us", line.us, "per_step", line.per_step);
}

void fields(Of<IntervalEntry> auto& at, const auto& visit) {
    visit.counts("first_step", at.first_step, "last_step", at.last_step);
    visit("seconds", at.seconds, "us", at.host.times, "workers_us", at.workers, "syncs", at.syncs, "lines", at.lines,
          "after_us", at.after_us, "start_us", at.start_us, "core_wait_us", at.core_wait_us, "user_seconds",
          at.user_seconds, "system_seconds", at.system_seconds, "rss_bytes", at.rss_bytes, "read_bytes", at.read_bytes,
          "major_faults", at.major_faults, "device_bytes", at.device_bytes, "gpu_done_us", at.gpu_done_us,
          "gpu_busy_us", at.gpu_busy_us, "gpu_celsius", at.gpu_celsius, "gpu_clock_share", at.gpu_clock_share,
          "gpu_clock_limit", at.gpu_clock_limit, "busy_share", at.busy_share, "iowait_share", at.iowait_share,
          "steal_share", at.steal_share, "throttled_share", at.throttled_share, "swap_in_bytes_per_second",
          at.swap_in_bytes_per_second);
}

void fields(Of<EvaluationEntry> auto& evaluation, const auto& visit) {
    visit.counts("step", evaluation.step, "samples", evaluation.samples);
    visit("us", evaluation.host.times, "workers_us", evaluation.workers);
}

void fields(Of<Bubble> auto& bubble, const auto& visit) {
    visit("formula", bubble.formula, "stages", bubble.stages);
}

void fields(Of<FunctionEntry> auto& function, const auto& visit) {
    visit("name", function.name, "place", function.place);
    visit.counts("count", function.count);
    visit("self_us", function.self_us, "total_us", function.total_us);
}

void fields(Of<FunctionProfile> auto& profile, const auto& visit) {
    visit.counts("steps", profile.steps);
    visit("functions", profile.functions);
}

// Writes what is known.
struct Writer {
    Json& json;

    void operator()() const {}
    template <typename T>
    void operator()(std::string_view key, const T& value, const auto&... rest) const {
        if constexpr (requires { value.has_value(); }) {
            if (value) {
                json[key] = to_json(*value);
            }
        } else if constexpr (requires { value.empty(); }) {
            if (!value.empty()) {
                json[key] = to_json(value);
            }
        } else {
            json[key] = to_json(value);
        }
        (*this)(rest...);
    }
    void counts(const auto&... keys_and_values) const { (*this)(keys_and_values...); }

    template <typename T>
    static Json to_json(const T& value) {
        if constexpr (requires { Json(value); }) {
            return value;
        } else {
            Json json = Json::object();
            fields(value, Writer{json});
            return json;
        }
    }
    static Json to_json(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1000; }
    static Json to_json(const PhaseTimes& times) {
        Json json = Json::object();
        for (std::size_t i = 0; i < kPhases; ++i) {
            if (times[i].count() != 0) {
                json[phase_name(static_cast<Phase>(i))] = to_json(times[i]);
            }
        }
        return json;
    }
    static Json to_json(const StageTimes& times) {
        Json json = {{"samples", times.samples}};
        if (times.on_device != 0) {
            json["on_device"] = times.on_device;
        }
        if (times.cpu.count() != 0) {  // workers = 0: the training thread loads, and its CPU time is not measured
            json["cpu"] = to_json(times.cpu);
        }
        for (std::size_t i = 0; i < kStages; ++i) {
            json[stage_name(static_cast<Stage>(i))] = to_json(times.times[i]);
        }
        return json;
    }
    template <typename T>
    static Json to_json(const std::vector<T>& list) {
        Json json = Json::array();
        std::ranges::transform(list, std::back_inserter(json), [](const T& entry) { return to_json(entry); });
        return json;
    }
};

// Reads what has the right type. `good` becomes false where a value has another.
class Reader {
  public:
    Reader(const Json& json, bool& good) : json_(json), good_(good) {}

    void operator()() const {}
    template <typename T>
    void operator()(std::string_view key, T& value, auto&&... rest) const {
        if (const auto found = json_.find(key); found != json_.end()) {
            good_ = take(*found, value) && good_;
        }
        (*this)(rest...);
    }
    // A damaged file may have any number, and sums of steps and samples must fit.
    void counts() const {}
    template <typename T>
    void counts(std::string_view key, T& count, auto&&... rest) const {
        constexpr std::int64_t kMost = std::int64_t{1} << 40;
        (*this)(key, count);
        if (std::optional<std::int64_t> number = count) {
            good_ = *number >= 0 && good_;
            count = std::clamp<std::int64_t>(*number, 0, kMost);
        }
        counts(rest...);
    }
    // NaN is written as null.
    void figures() const {}
    template <typename T>
    void figures(std::string_view key, T& value, auto&&... rest) const {
        if (const auto found = json_.find(key); found != json_.end() && found->is_null()) {
            value = std::numeric_limits<double>::quiet_NaN();
        } else {
            (*this)(key, value);
        }
        figures(rest...);
    }
    void require(std::initializer_list<const char*> keys) const {
        good_ = good_ && std::ranges::all_of(keys, [&](const char* key) { return json_.contains(key); });
    }

  private:
    template <typename T>
    bool take(const Json& from, T& value) const {
        if constexpr (std::same_as<T, bool>) {
            return from.is_boolean() && (from.get_to(value), true);
        } else if constexpr (std::same_as<T, std::string>) {
            return from.is_string() && (from.get_to(value), true);
        } else if constexpr (std::integral<T>) {
            // An unsigned number beyond std::int64_t becomes a negative one.
            const bool fits = from.is_number_integer() && std::in_range<T>(from.get<std::int64_t>());
            return fits && (from.get_to(value), true);
        } else if constexpr (std::same_as<T, double>) {
            return from.is_number() && (from.get_to(value), true);
        } else {
            fields(value, Reader(from, good_));
            return from.is_object();
        }
    }
    template <typename T>
    bool take(const Json& from, std::optional<T>& value) const {
        T read{};
        if (from.is_null() || !take(from, read)) {
            return from.is_null();
        }
        value = std::move(read);
        return true;
    }
    template <typename T>
    bool take(const Json& from, std::vector<T>& list) const {
        if (!from.is_array()) {
            return false;
        }
        for (const Json& entry : from) {
            if (T read{}; take(entry, read)) {
                list.push_back(std::move(read));
            }
        }
        return true;
    }
    bool take(const Json& from, std::chrono::nanoseconds& time) const {
        constexpr double kMost = 1e15;  // eleven days; a damaged file may have any number, and sums must fit
        double us = 0;
        const bool good = take(from, us);
        time = std::chrono::nanoseconds(static_cast<std::int64_t>(std::clamp(us * 1000, -kMost, kMost)));
        return good;
    }
    bool take(const Json& from, PhaseTimes& times) const {
        for (std::size_t i = 0; i < kPhases; ++i) {
            Reader(from, good_)(phase_name(static_cast<Phase>(i)), times[i]);
        }
        return from.is_object();
    }
    bool take(const Json& from, StageTimes& stages) const {
        const Reader read(from, good_);
        read.counts("samples", stages.samples, "on_device", stages.on_device);
        read("cpu", stages.cpu);
        for (std::size_t i = 0; i < kStages; ++i) {
            read(stage_name(static_cast<Stage>(i)), stages.times[i]);
        }
        return from.is_object();
    }

    const Json& json_;
    bool& good_;
};

void read_fields(StepEntry& step, const Reader& read) {
    read.counts("step", step.step, "epoch", step.epoch, "samples", step.samples);
    read("lr", step.lr, "ready", step.ready, "copy_bytes", step.copy_bytes, "us", step.host.times);
    read.figures("loss", step.loss);
    read.require({"step", "epoch"});
}

// The main metric comes first. The accuracies of a classification have their own keys.
void read_metrics(const Json& json, EpochResult& epoch, const Reader& read) {
    if (epoch.val_accuracy) {
        epoch.val_metrics.push_back({"accuracy", *epoch.val_accuracy});
    }
    if (epoch.val_top5_accuracy) {
        epoch.val_metrics.push_back({"top5_accuracy", *epoch.val_top5_accuracy});
    }
    const Json own = json.value("val_metrics", Json());
    for (const auto& [name, value] : own.items()) {
        if (own.is_object() && (value.is_number() || value.is_null())) {
            epoch.val_metrics.push_back(
                {name, value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>()});
        }
    }
    std::string main;
    read("val_metric", main);
    if (const auto found = std::ranges::find(epoch.val_metrics, main, &Metric::name);
        found != epoch.val_metrics.end()) {
        read("higher_is_better", found->higher_is_better);
        std::iter_swap(epoch.val_metrics.begin(), found);
    }
}

RankRecords& rank_of(int number, RunRecords& records) {
    const auto found =
        std::ranges::find_if(records.ranks, [&](const RankRecords& rank) { return rank.facts.rank >= number; });
    if (found != records.ranks.end() && found->facts.rank == number) {
        return *found;
    }
    return *records.ranks.insert(found, RankRecords{.facts = {.rank = number}});
}

std::string line_of(Json head, const auto& entry) {
    fields(entry, Writer{head});
    return json_text(head);
}

}  // namespace

std::string to_json_line(const RunFacts& facts, std::int64_t step) {
    return line_of({{"type", "facts"}, {"schema", kRecordsSchema}, {"step", step}}, facts);
}

// Formatted without a JSON object, because it is written for every step. "us" comes last (kStepLine).
std::string to_json_line(const StepEntry& step, std::uint64_t batch_hash) {
    const double loss = step.loss.value_or(std::numeric_limits<double>::quiet_NaN());
    std::string line =
        fmt::format(R"({}"schema":{},"step":{},"epoch":{},"samples":{},"loss":{},"lr":{},"batch_hash":"{:016x}")",
                    kStepLine, kRecordsSchema, step.step, step.epoch, step.samples.value_or(0),
                    std::isfinite(loss) ? fmt::to_string(loss) : "null", step.lr.value_or(0), batch_hash);
    if (step.ready) {
        fmt::format_to(std::back_inserter(line), R"(,"ready":{})", *step.ready);
    }
    if (step.copy_bytes) {
        fmt::format_to(std::back_inserter(line), R"(,"copy_bytes":{})", *step.copy_bytes);
    }
    line += R"(,"us":{)";
    const char* separator = "";
    for (std::size_t i = 0; i < kPhases; ++i) {
        if (const auto us = step.host.times[i].count() / 1000; us != 0) {
            fmt::format_to(std::back_inserter(line), R"({}"{}":{})", std::exchange(separator, ","),
                           phase_name(static_cast<Phase>(i)), us);
        }
    }
    return line + "}}";
}

std::string to_json_line(const IntervalEntry& interval, int rank) {
    return line_of({{"type", "interval"}, {"schema", kRecordsSchema}, {"step", interval.last_step}, {"rank", rank}},
                   interval);
}

std::string to_json_line(const EvaluationEntry& evaluation, int rank) {
    return line_of({{"type", "evaluation"}, {"schema", kRecordsSchema}, {"rank", rank}}, evaluation);
}

std::string to_json_line(const EpochResult& epoch) {
    Json json = {{"type", "epoch"}, {"schema", kRecordsSchema}, {"step", epoch.step}};
    json.update(json_of(epoch));
    return json_text(json);
}

std::string marked_as_profiled(std::string line) {
    return line.insert(line.rfind('}'), R"(,"profiled":true)");
}

nlohmann::ordered_json json_of(const EpochResult& epoch) {
    const auto optional = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
    Json json = {{"epoch", epoch.epoch},
                 {"seconds", epoch.seconds},
                 {"images_per_second", epoch.images_per_second},
                 {"train_loss", epoch.train_loss},
                 {"val_loss", optional(epoch.val_loss)},
                 {"val_accuracy", optional(epoch.val_accuracy)},
                 {"val_top5_accuracy", optional(epoch.val_top5_accuracy)},
                 {"bad_samples", epoch.bad_samples},
                 {"val_bad_samples", epoch.val_bad_samples}};
    if (!epoch.val_metrics.empty() && !epoch.val_accuracy) {  // accuracies have their own keys
        json["val_metric"] = epoch.val_metrics.front().name;
        json["higher_is_better"] = epoch.val_metrics.front().higher_is_better;
        for (const Metric& metric : epoch.val_metrics) {
            json["val_metrics"][metric.name] = metric.value;
        }
    }
    Writer{json}("bubble", epoch.bubble);
    return json;
}

bool read_epoch(const nlohmann::ordered_json& json, EpochResult& epoch) {
    bool good = true;
    const Reader read(json, good);
    read.counts("epoch", epoch.epoch, "bad_samples", epoch.bad_samples, "val_bad_samples", epoch.val_bad_samples);
    read.figures("seconds", epoch.seconds, "images_per_second", epoch.images_per_second, "train_loss",
                 epoch.train_loss);
    read("val_loss", epoch.val_loss, "val_accuracy", epoch.val_accuracy, "val_top5_accuracy", epoch.val_top5_accuracy,
         "bubble", epoch.bubble);
    read.require({"epoch", "seconds", "images_per_second", "train_loss"});
    read_metrics(json, epoch, read);
    return good;
}

RecordLine read_record(std::string_view line, std::initializer_list<std::string_view> types) {
    constexpr int kMostRanks = 16384;
    RecordLine record;
    const Json json = parse_json<Json>(line);
    const Reader read(json, record.complete);
    read("type", record.type);
    if (record.type.empty()) {
        record.problem = "not a JSON object with a \"type\"";
        return record;
    }
    read("step", record.step, "rank", record.rank, "profiled", record.profiled);
    if (std::ranges::find(types, record.type) == types.end()) {
        return record;
    }
    if (const Json schema = json.value("schema", Json()); schema != kRecordsSchema) {
        record.problem = fmt::format("schema {} and not {}", json_text(schema).substr(0, 80), kRecordsSchema);
    } else if (record.rank < 0 || record.rank >= kMostRanks) {
        record.problem = "a rank that no run has";
    } else if (record.type == "facts") {
        fields(record.entry.emplace<RunFacts>(), read);
    } else if (record.type == "step") {
        read_fields(record.entry.emplace<StepEntry>(), read);
    } else if (record.type == "interval") {
        fields(record.entry.emplace<IntervalEntry>(), read);
    } else if (record.type == "evaluation") {
        fields(record.entry.emplace<EvaluationEntry>(), read);
    } else if (record.type == "functions") {
        fields(record.entry.emplace<FunctionProfile>(), read);
    } else {
        EpochResult& epoch = record.entry.emplace<EpochResult>();
        epoch.step = record.step;
        record.complete = read_epoch(json, epoch) && record.complete && record.step >= 0;
    }
    return record;
}

std::string add_record(std::string_view line, RunRecords& records) {
    RecordLine record = read_record(line, {"facts", "step", "interval", "evaluation", "functions"});
    if (!record.problem.empty() || record.entry.index() == 0) {
        return record.problem;
    }
    RankRecords& rank = rank_of(record.rank, records);
    if (auto* const facts = std::get_if<RunFacts>(&record.entry)) {
        rank.facts = std::move(*facts);
    } else if (auto* const interval = std::get_if<IntervalEntry>(&record.entry)) {
        rank.intervals.push_back(std::move(*interval));
    } else if (auto* const functions = std::get_if<FunctionProfile>(&record.entry)) {
        rank.functions = std::move(*functions);
    } else if (record.profiled) {
        return "";
    } else if (auto* const step = std::get_if<StepEntry>(&record.entry)) {
        add_in_order(rank.steps, *step, &StepEntry::step);
    } else if (auto* const evaluation = std::get_if<EvaluationEntry>(&record.entry)) {
        rank.evaluations.push_back(*evaluation);
    }
    return "";
}

}  // namespace stoker
