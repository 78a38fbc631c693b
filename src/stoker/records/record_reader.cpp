#include "stoker/records/record_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <limits>
#include <simdjson.h>
#include <span>

#include "stoker/records/record_fields.h"

namespace stoker {
namespace {

using simdjson::SUCCESS;
using simdjson::dom::element;
using simdjson::dom::object;

std::chrono::nanoseconds nanoseconds(double us) {
    constexpr double kMost = 1e15;  // eleven days; a damaged file may have any number, and sums must fit
    return std::chrono::nanoseconds(static_cast<std::int64_t>(std::clamp(us * 1000, -kMost, kMost)));
}

// Takes what has the right type; `wrong` is set where something has another.
class FieldReader {
  public:
    FieldReader(object json, bool& wrong) : json_(json), wrong_(wrong) {}

    template <typename T>
    void operator()(std::string_view key, T& value) const {
        if (element found; json_.at_key(key).get(found) == SUCCESS && !take(found, value)) {
            wrong_ = true;
        }
    }
    // A damaged file may have any number, and sums of steps and samples must fit.
    void count(std::string_view key, std::int64_t& value) const {
        constexpr std::int64_t kMost = std::int64_t{1} << 40;
        (*this)(key, value);
        wrong_ = wrong_ || value < 0;
        value = std::clamp<std::int64_t>(value, 0, kMost);
    }
    void count(std::string_view key, std::optional<std::int64_t>& value) const {
        if (has(key)) {
            count(key, value.emplace(0));
        }
    }
    template <typename T>
    void figure(std::string_view key, T& value) const {
        if (element found; json_.at_key(key).get(found) == SUCCESS && found.is_null()) {
            value = std::numeric_limits<double>::quiet_NaN();
        } else {
            (*this)(key, value);
        }
    }
    void nullable(std::string_view key, std::optional<double>& value) const { (*this)(key, value); }
    void hash(std::string_view key, std::optional<std::uint64_t>& value) const {
        std::string_view text;
        if (json_.at_key(key).get(text) == SUCCESS) {
            std::from_chars(text.data(), text.data() + text.size(), value.emplace(0), 16);
        }
    }
    bool has(std::string_view key) const { return json_.at_key(key).error() == SUCCESS; }

  private:
    static bool take(element from, bool& value) { return from.get(value) == SUCCESS; }
    static bool take(element from, double& value) { return from.get(value) == SUCCESS; }
    static bool take(element from, std::string& value) {
        std::string_view text;
        return from.get(text) == SUCCESS && (value = text, true);
    }
    template <std::integral T>
    static bool take(element from, T& value) {
        std::int64_t number = 0;
        return from.get(number) == SUCCESS && std::in_range<T>(number) && (value = static_cast<T>(number), true);
    }
    template <typename T>
    bool take(element from, std::optional<T>& value) const {
        T read{};
        const bool good = from.is_null() || take(from, read);
        if (good && !from.is_null()) {
            value = std::move(read);
        }
        return good;
    }
    bool take(element from, PhaseTimes& times) const {
        object json;
        const bool good = from.get(json) == SUCCESS;
        for (std::size_t i = 0; good && i < kPhases; ++i) {
            times[i] = FieldReader(json, wrong_).time(phase_name(static_cast<Phase>(i)));
        }
        return good;
    }
    bool take(element from, StageTimes& stages) const {
        object json;
        if (from.get(json) != SUCCESS) {
            return true;  // all of them are unknown
        }
        const FieldReader read(json, wrong_);
        read.count("samples", stages.samples);
        read.count("on_device", stages.on_device);
        stages.cpu = read.time("cpu");
        for (std::size_t i = 0; i < kStages; ++i) {
            stages.times[i] = read.time(stage_name(static_cast<Stage>(i)));
        }
        return true;
    }
    // By name. Only numbers are kept.
    static bool take(element from, std::vector<MetricEntry>& metrics) {
        object json;
        if (from.get(json) == SUCCESS) {
            for (const auto& [name, value] : json) {
                double number = std::numeric_limits<double>::quiet_NaN();
                if (value.is_null() || value.get(number) == SUCCESS) {
                    metrics.push_back({.name = std::string(name), .value = number});
                }
            }
        }
        return true;
    }
    template <typename T>
    bool take(element from, std::vector<T>& list) const {
        simdjson::dom::array json;
        if (from.get(json) != SUCCESS) {
            return false;
        }
        for (const element entry : json) {
            T read{};
            if (take(entry, read)) {
                list.push_back(std::move(read));
            }
        }
        return true;
    }
    template <typename Entry>
    bool take(element from, Entry& entry) const {
        object json;
        const bool good = from.get(json) == SUCCESS;
        if (good) {
            fields(entry, FieldReader(json, wrong_));
        }
        return good;
    }
    std::chrono::nanoseconds time(std::string_view key) const {
        double us = 0;
        (*this)(key, us);
        return nanoseconds(us);
    }

    object json_;
    bool& wrong_;
};

// The schema of a line if it differs from ours.
std::string other_schema(object json) {
    std::int64_t schema = 0;
    element found;
    if (json.at_key("schema").get(found) != SUCCESS) {
        return "none";
    }
    return found.get(schema) == SUCCESS && schema == kRecordsSchema ? "" : simdjson::minify(found).substr(0, 80);
}

// Null for a rank that no run has.
RankRecords* rank_of(int number, RunRecords& records) {
    constexpr int kMost = 16384;
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

}  // namespace

struct RecordReader::State {
    std::vector<std::string> types;
    simdjson::dom::parser parser;
};

RecordReader::RecordReader(std::initializer_list<std::string_view> types)
    : state_(new State{.types = {types.begin(), types.end()}, .parser = simdjson::dom::parser()}) {}

RecordReader::~RecordReader() = default;

RecordLine RecordReader::read(std::string_view line) {
    RecordLine record;
    object json;
    std::string_view type;
    if (state_->parser.parse(line.data(), line.size()).get(json) != SUCCESS ||
        json.at_key("type").get(type) != SUCCESS || type.empty()) {
        record.problem = "not a JSON object with a \"type\"";
        return record;
    }
    record.type = type;
    bool wrong = false;
    const FieldReader read(json, wrong);
    read("step", record.step);
    read("rank", record.rank);
    read("profiled", record.profiled);
    if (std::ranges::find(state_->types, type) == state_->types.end()) {
        return record;
    }
    if (const std::string schema = other_schema(json); !schema.empty()) {
        record.problem = fmt::format("schema {} and not {}", schema, kRecordsSchema);
        return record;
    }
    constexpr std::array<std::string_view, 5> kRequired = {"step", "epoch", "seconds", "images_per_second",
                                                           "train_loss"};
    std::size_t required = 0;
    if (type == "facts") {
        fields(record.entry.emplace<RunFacts>(), read);
    } else if (type == "step") {
        fields(record.entry.emplace<StepEntry>(), read);
        required = 2;
    } else if (type == "interval") {
        fields(record.entry.emplace<IntervalEntry>(), read);
    } else if (type == "evaluation") {
        fields(record.entry.emplace<EvaluationEntry>(), read);
    } else if (type == "epoch") {
        EpochEntry& epoch = record.entry.emplace<EpochEntry>();
        read.count("step", epoch.step);
        fields(epoch, read);
        required = kRequired.size();
    } else if (type == "functions") {
        fields(record.entry.emplace<FunctionProfile>(), read);
    }
    record.complete = !wrong && std::ranges::all_of(std::span(kRequired).first(required),
                                                    [&](std::string_view key) { return read.has(key); });
    return record;
}

bool seems_of_type(std::string_view line, std::string_view type) {
    constexpr std::string_view kKey = "\"type\"";
    const std::size_t key = line.find(kKey);
    if (key == std::string_view::npos || !line.ends_with('}')) {
        return false;
    }
    const std::size_t value = std::min(line.find_first_not_of(" :", key + kKey.size()), line.size());
    return line.substr(value).starts_with('"' + std::string(type) + '"');
}

std::string RecordCollector::add(std::string_view line) {
    RecordLine record = reader_.read(line);
    if (!record.problem.empty() || record.entry.index() == 0) {
        return record.problem;
    }
    RankRecords* const rank = rank_of(record.rank, records_);
    if (rank == nullptr) {
        return "a rank that no run has";
    }
    if (auto* const facts = std::get_if<RunFacts>(&record.entry)) {
        rank->facts = std::move(*facts);
    } else if (auto* const step = std::get_if<StepEntry>(&record.entry); step != nullptr && !record.profiled) {
        add_in_order(rank->steps, *step, &StepEntry::step);
    } else if (auto* const interval = std::get_if<IntervalEntry>(&record.entry)) {
        rank->intervals.push_back(std::move(*interval));
    } else if (auto* const evaluation = std::get_if<EvaluationEntry>(&record.entry);
               evaluation != nullptr && !record.profiled) {
        rank->evaluations.push_back(*evaluation);
    } else if (auto* const functions = std::get_if<FunctionProfile>(&record.entry)) {
        rank->functions = std::move(*functions);
    }
    return "";
}

}  // namespace stoker
