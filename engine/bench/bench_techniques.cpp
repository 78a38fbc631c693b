// stoker bench techniques: the gain of each technique on a recipe's own data and model: alone against a plain baseline
// (one thread does everything, float32, no fused kernels), and added to all before it.
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/bench/other_load.h"
#include "cli/terminal/print.h"
#include "cli/terminal/signals.h"
#include "cli/terminal/table.h"
#include "cli/terminal/temp_folder.h"
#include "engine/commands.h"
#include "engine/ranks.h"
#include "engine/tune/open_trial.h"
#include "engine/tune/pack_sample.h"
#include "stoker/recipe/values.h"
#include "stoker/tune/contender.h"
#include "stoker/tune/variants.h"

namespace stoker::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BenchTechniquesArguments {
    std::string recipe;
    std::vector<std::string> sets;
    double seconds = 1;
    int pairs = 7;
    std::int64_t samples = 2048;
    bool json = false;
};

constexpr const char* kNeedsGpu = "needs a GPU";

// Against a baseline: the factor, and the memory that it takes.
struct Gain {
    Estimate factor = {};
    double rate = 0;
    double peak_rss_mb = 0;
    std::optional<std::int64_t> device_bytes = {};
};

struct Technique {
    std::string name;
    std::vector<std::string> sets = {};
    bool fused_optimizer = false;
    std::string why_not = {};  // it cannot apply here
    std::optional<Gain> alone = {};
    std::optional<Gain> added = {};
};

const std::vector<std::string> kPlain = {
    "data.workers=0",  "data.prefetch=1",      "data.pin_memory=false",     "data.cache=none",    "data.decode_on=cpu",
    "train.threads=1", "train.precision=fp32", "train.channels_last=false", "train.accumulate=1", "train.compile=none"};

std::string key_of(const std::string& set) {
    return set.substr(0, set.find('='));
}

// A key of a technique would be overwritten.
void require_other_keys(const std::vector<std::string>& sets) {
    for (const std::string& set : sets) {
        if (std::ranges::find(kPlain, key_of(set), key_of) != kPlain.end()) {
            throw InvalidArgument({.where = "--set",
                                   .expected = "a key that no technique changes",
                                   .got = key_of(set),
                                   .hint = "the plain baseline has " + fmt::format("{}", fmt::join(kPlain, ", "))});
        }
    }
}

class Bench {
  public:
    Bench(const BenchTechniquesArguments& options, const Recipe& recipe, const OpenTrial& open,
          const std::filesystem::path& folder)
        : options_(options), recipe_(recipe), open_(open), folder_(folder), plain_(open_, spec_of({}, false)) {}

    std::vector<Technique> run() {
        print_stderr("plain: one thread, no prefetching, float32, no fused kernels\n");
        plain_gain_ = gain_of(plain_.measure(options_.seconds), {});
        facts_ = plain_.facts();
        std::vector<Technique> techniques = list();
        std::vector<std::string> all;
        bool fused = false;
        for (Technique& technique : techniques) {
            if (!technique.why_not.empty()) {
                continue;
            }
            print_stderr("{}: alone\n", technique.name);
            technique.alone = measure(technique, technique.sets, technique.fused_optimizer);
            if (!technique.alone) {
                continue;
            }
            std::vector<std::string> with = all;
            with.insert(with.end(), technique.sets.begin(), technique.sets.end());
            const bool with_fused = fused || technique.fused_optimizer;
            if (all.empty() && !fused) {
                technique.added = technique.alone;
            } else {
                print_stderr("{}: added to those before\n", technique.name);
                technique.added = measure(technique, with, with_fused);
            }
            if (technique.added) {
                all = std::move(with);
                fused = with_fused;
            }
        }
        return techniques;
    }

    const Gain& plain() const { return plain_gain_; }
    const TrialFacts& facts() const { return facts_; }

  private:
    TrialSpec spec_of(const std::vector<std::string>& sets, bool fused) const {
        TrialSpec spec{.sets = options_.sets, .samples = options_.samples, .single_tensor = !fused};
        spec.sets.insert(spec.sets.end(), kPlain.begin(), kPlain.end());
        spec.sets.insert(spec.sets.end(), sets.begin(), sets.end());
        return spec;
    }

    static Gain gain_of(const Measurement& measured, const Estimate& factor) {
        return {.factor = factor,
                .rate = measured.rate(),
                .peak_rss_mb = measured.peak_rss_mb,
                .device_bytes = measured.device_bytes};
    }

    // Alone if memory does not hold both.
    Measurement measure_last(Contender& contender) {
        try {
            return contender.measure(options_.seconds);
        } catch (const TrialOutOfMemory&) {
            plain_.close();
        }
        return contender.measure(options_.seconds);
    }

    // Empty if the trial failed; the technique then has the reason.
    std::optional<Gain> measure(Technique& technique, const std::vector<std::string>& sets, bool fused) {
        try {
            Contender contender(open_, spec_of(sets, fused));
            const PairedResult pairs =
                compare(plain_, contender, options_.seconds,
                        {.margin = 0, .least = options_.pairs, .most = options_.pairs}, [] { return false; });
            return gain_of(measure_last(contender), pairs.ratio);
        } catch (const TrialFailed& error) {
            technique.why_not = error.what();
            return std::nullopt;
        }
    }

    // The names are those of the recipe's documentation. The order is that in which they are added up.
    std::vector<Technique> list() {
        const std::string gpu = facts_.device == "cpu" ? kNeedsGpu : "";
        const std::string cores = fmt::format("{:.0f}", std::max(facts_.cores, 1.0));
        const Technique packed_as_is = packed("packed format", "keep");
        const Technique dct = packed("dct", "dct");
        std::vector<Technique> all = {
            {.name = "prefetch", .sets = {"data.workers=1", "data.prefetch=3"}},
            {.name = "workers", .sets = {"data.workers=" + cores}},
            {.name = "threads", .sets = {"train.threads=" + cores}},
            {.name = "pinned memory", .sets = {"data.pin_memory=true"}, .why_not = gpu},
            {.name = "copy stream", .why_not = gpu.empty() ? "copies always run on a stream of their own" : gpu},
            packed_as_is,
            dct,
            on_gpu(dct, gpu),
            {.name = "cache", .sets = {"data.cache=ram"}},
            {.name = "precision", .sets = {"train.precision=bf16"}},
            {.name = "channels_last", .sets = {"train.channels_last=true"}, .why_not = without_convolutions()},
            {.name = "fused optimizer", .fused_optimizer = true},
            {.name = "fused step or graph", .sets = {"train.compile=auto"}, .why_not = without_compiled_step()},
            {.name = "accumulation", .sets = {"train.accumulate=2"}},
            {.name = "DataParallel", .sets = {"train.data_parallel=true"}, .why_not = gpu},
        };
        return all;
    }

    // The GPU decodes what is packed as `dct`.
    static Technique on_gpu(const Technique& dct, const std::string& no_gpu) {
        Technique technique{
            .name = "dct on the GPU", .sets = dct.sets, .why_not = no_gpu.empty() ? dct.why_not : no_gpu};
        technique.sets.emplace_back("data.decode_on=device");
        return technique;
    }

    std::string without_convolutions() const {
        return has_convolutions(recipe_.model) ? "" : "needs a model with convolutions";
    }

    // A step that stays eager says why.
    std::string without_compiled_step() const {
        if (facts_.device != "cpu") {
            return "";
        }
        const TrialSpec spec = spec_of({"train.compile=auto"}, true);
        const std::string compiled = open_(spec)->facts().compiled;
        return compiled == "fused" ? "" : kNeedsGpu;
    }

    Technique packed(const std::string& name, const std::string& codec) {
        Technique technique{.name = name};
        if (recipe_.data.train.starts_with("synth:") || !recipe_.data.mix.empty()) {
            technique.why_not = "needs one data set of files";
            return technique;
        }
        if (!recipe_.data.fields.more.empty()) {
            technique.why_not = "needs a recipe without [data.fields.NAME]";
            return technique;
        }
        print_stderr("packing {} samples with --codec {}\n", options_.samples, codec);
        try {
            if (const auto part = pack_part(recipe_, codec, options_.samples, folder_)) {
                technique.sets = {fmt::format("data.train={}", toml_string(part->path.string()))};
            } else {
                technique.why_not = "needs JPEGs";
            }
        } catch (const Error& error) {
            technique.why_not = error.what();
        }
        return technique;
    }

    const BenchTechniquesArguments& options_;
    const Recipe& recipe_;
    const OpenTrial& open_;
    const std::filesystem::path folder_;
    Contender plain_;
    Gain plain_gain_;
    TrialFacts facts_;
};

Json json_of(const std::optional<Gain>& gain) {
    if (!gain) {
        return nullptr;
    }
    return {{"factor", gain->factor.median},
            {"interval", gain->factor.has_interval() ? Json{gain->factor.low, gain->factor.high} : Json(nullptr)},
            {"images_per_second", gain->rate},
            {"peak_rss_mb", gain->peak_rss_mb},
            {"device_bytes", gain->device_bytes ? Json(*gain->device_bytes) : Json(nullptr)}};
}

void print_json(const Bench& bench, const std::vector<Technique>& techniques) {
    Json list = Json::array();
    for (const Technique& technique : techniques) {
        list.push_back({{"name", technique.name},
                        {"alone", json_of(technique.alone)},
                        {"added", json_of(technique.added)},
                        {"why_not", technique.why_not.empty() ? Json(nullptr) : Json(technique.why_not)}});
    }
    print_document({{"device", bench.facts().device},
                    {"cores", bench.facts().cores},
                    {"plain", json_of(bench.plain())},
                    {"techniques", list}});
}

std::string factor_text(const std::optional<Gain>& gain) {
    return gain ? fmt::format("{:.2f}x", gain->factor.median) : "";
}

std::string interval_text(const std::optional<Gain>& gain) {
    return gain ? fmt::format("{:.2f} to {:.2f}", gain->factor.low, gain->factor.high) : "";
}

std::string memory_of(const std::optional<Gain>& gain) {
    if (!gain) {
        return "";
    }
    return gain->device_bytes ? fmt::format("{:.0f} + {:.0f} MiB", gain->peak_rss_mb,
                                            static_cast<double>(*gain->device_bytes) / (1 << 20))
                              : fmt::format("{:.0f} MiB", gain->peak_rss_mb);
}

void print_table(const Bench& bench, const std::vector<Technique>& techniques) {
    Table table;
    table.column("technique", Table::Align::left);
    for (const char* title : {"alone", "95 % interval", "memory", "added up", "95 % interval", "memory"}) {
        table.column(title);
    }
    table.column("", Table::Align::left);
    for (const Technique& technique : techniques) {
        table.row({technique.name, factor_text(technique.alone), interval_text(technique.alone),
                   memory_of(technique.alone), factor_text(technique.added), interval_text(technique.added),
                   memory_of(technique.added), technique.why_not});
    }
    print_stdout("plain: {:.1f} images/s, {}\n", bench.plain().rate, memory_of(bench.plain()));
    print_lines(table.text());
}

int run(const BenchTechniquesArguments& options) {
    require_one_rank("stoker bench techniques");
    require_other_keys(options.sets);
    const Recipe recipe = read_recipe(options.recipe, options.sets);
    return run_interruptible([&](const std::atomic<int>& stop) {
        const TempFolder folder("stoker-techniques");
        const OpenTrial open = trial_opener(options.recipe, stop);
        const OtherLoad load;
        try {
            Bench bench(options, recipe, open, folder.path());
            const std::vector<Technique> techniques = bench.run();
            options.json ? print_json(bench, techniques) : print_table(bench, techniques);
        } catch (const TrialStopped&) {
            throw Interrupted{stop};
        }
        load.warn();
        return 0;
    });
}

}  // namespace

Command add_bench_techniques(CLI::App& app) {
    auto options = std::make_shared<BenchTechniquesArguments>();
    app.add_option("recipe", options->recipe, "the recipe (TOML)")->required();
    add_set_option(app, options->sets, "device=cpu");
    add_number(app, "--seconds", options->seconds, "seconds of each measurement", 0.05, 600.0);
    add_number(app, "--pairs", options->pairs, "measurements of each technique, in turn with the baseline", 6, 1000);
    add_number(app, "--samples", options->samples, "samples of the training data that are used; 0: all", 0,
               std::int64_t{1} << 40);
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the table");
    example(app,
            "  stoker bench techniques recipes/imagefolder_resnet18.toml --samples 1024\n"
            "Each technique is measured in turn with a plain baseline: alone, and added to all before it.");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
