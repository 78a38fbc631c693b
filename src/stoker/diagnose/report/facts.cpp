#include "stoker/diagnose/report/facts.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "stoker/base/byte_text.h"
#include "stoker/base/pluralize.h"
#include "stoker/diagnose/judged_steps.h"
#include "stoker/diagnose/report/units.h"

namespace stoker {
namespace {

// Collects a group's facts; an unknown one adds nothing.
struct Group {
    FactGroup out;

    Group& text(const char* name, const std::string& value) {
        if (!value.empty()) {
            out.facts.push_back({name, value});
        }
        return *this;
    }
    template <typename T>
    Group& number(const char* name, const std::optional<T>& value) {
        return text(name, value ? number_text(static_cast<double>(*value)) : "");
    }
    Group& bytes(const char* name, const std::optional<std::int64_t>& value) {
        return text(name, value ? byte_text(*value) : "");
    }
    Group& bytes(const char* name, const std::optional<double>& value) {
        return text(name, value ? byte_text(static_cast<std::int64_t>(*value)) : "");
    }
    Group& yes_or_no(const char* name, const std::optional<bool>& value) {
        return text(name, !value ? "" : *value ? "yes" : "no");
    }
};

FactGroup host_facts(const RunFacts& facts) {
    Group group{.out = {.title = "Host and device", .facts = {}}};
    group.number("cores that the process may use", facts.host.cores)
        .bytes("memory that the process may use", facts.host.memory_bytes)
        .number("processes of the run on this host", facts.host.ranks)
        .text("ranks", facts.world_size > 1 ? fmt::to_string(facts.world_size) : "")
        .text("device", facts.device.type)
        .text("device name", facts.device.name)
        .text("devices of this process", facts.device.count > 1 ? fmt::to_string(facts.device.count) : "")
        .bytes("device memory", facts.device.memory_bytes)
        .yes_or_no("tensor cores", facts.device.tensor_cores);
    return std::move(group.out);
}

FactGroup data_facts(const DataFacts& data) {
    Group group{.out = {.title = "Data", .facts = {}}};
    group.text("data", data.path)
        .text("format", data.format)
        .text("codec", data.codec)
        .text("storage", data.storage)
        .number("samples", data.samples)
        .bytes("stored bytes of a sample", data.sample_bytes)
        .bytes("bytes of a sample in the batch", data.image_bytes)
        .number("workers", data.workers)
        .number("batches prefetched", data.prefetch)
        .yes_or_no("pinned memory", data.pinned)
        .text("cache", data.cache)
        .text("decoding", data.decode);
    return std::move(group.out);
}

FactGroup train_facts(const RunFacts& facts) {
    const TrainFacts& train = facts.train;
    Group group{.out = {.title = "Training", .facts = {}}};
    group.text("model", train.model)
        .number("parameters", train.parameters)
        .number("batch size, all ranks", train.batch_size)
        .number("steps of an epoch", train.steps_per_epoch)
        .number("validation samples", train.val_samples)
        .number("epochs between evaluations", train.epochs_per_evaluation)
        .text("precision", train.precision)
        .text("optimizer", train.optimizer)
        .text("optimizer kernels", train.optimizer_kernel)
        .text("step", train.compiled)
        .number("accumulated micro-batches", train.accumulate)
        .number("threads of LibTorch", train.threads)
        .text("stages of the model", train.stages)
        .text("order of the stages' passes", train.pipeline)
        .text("written by", facts.writer);
    return std::move(group.out);
}

// The largest known value of `of` over all intervals.
template <typename Of>
std::optional<std::int64_t> peak(const RunRecords& records, Of of) {
    std::optional<std::int64_t> most;
    for (const RankRecords& rank : records.ranks) {
        for (const IntervalEntry& interval : rank.intervals) {
            if (const auto& value = interval.*of; value) {
                most = std::max(most.value_or(*value), *value);
            }
        }
    }
    return most;
}

// The speed in the steps that are judged.
void add_speed(const RankRecords& rank, std::vector<Fact>& figures) {
    const JudgedSteps run = judged_steps(rank);
    const StepRecord& sum = run.account;
    std::int64_t samples = 0;
    bool known = !rank.steps.empty();
    for (const StepEntry& step : rank.steps) {
        if (run.judges(step)) {
            known = known && step.samples.has_value();
            samples += step.samples.value_or(0);
        }
    }
    if (sum.total().count() <= 0) {
        return;
    }
    figures.push_back({"median step", duration_text(1e6 * run.median_step)});
    if (known) {
        figures.push_back({"samples a second",
                           number_text(static_cast<double>(samples) * 1e9 / static_cast<double>(sum.total().count()))});
    }
    std::array<double, kPhases> times{};
    std::ranges::transform(sum.times, times.begin(), [](auto time) { return static_cast<double>(time.count()); });
    const int tenths = tenths_of_percent(times)[static_cast<std::size_t>(Phase::wait)];  // as in the legend
    figures.push_back({"waiting for data", fmt::format("{}.{} %", tenths / 10, tenths % 10)});
}

}  // namespace

std::vector<FactGroup> fact_groups(const RunRecords& records) {
    std::vector<FactGroup> groups;
    if (!records.ranks.empty()) {
        const RunFacts& facts = records.ranks[0].facts;
        groups = {host_facts(facts), data_facts(facts.data), train_facts(facts)};
        std::erase_if(groups, [](const FactGroup& group) { return group.facts.empty(); });
    }
    return groups;
}

std::vector<Fact> key_figures(const Report& report) {
    std::vector<Fact> figures;
    if (report.records.ranks.empty()) {
        return figures;
    }
    const RankRecords& rank = report.records.ranks[0];
    figures.push_back({"steps", with_commas(static_cast<double>(rank.steps.size()))});
    add_speed(rank, figures);
    if (rank.profile && rank.profile->gpu) {
        figures.push_back({"GPU busy", percent_text(rank.profile->gpu->times.busy())});
    }
    if (const auto bytes = peak(report.records, &IntervalEntry::device_bytes); bytes) {
        figures.push_back({"peak GPU memory", byte_text(*bytes)});
    } else if (const auto rss = peak(report.records, &IntervalEntry::rss_bytes); rss) {
        figures.push_back({"peak memory", byte_text(*rss)});
    }
    return figures;
}

}  // namespace stoker
