#include "stoker/tune/tuner.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <iterator>

#include "stoker/recipe/schema.h"
#include "stoker/recipe/values.h"
#include "stoker/tune/candidate.h"
#include "stoker/tune/contender.h"
#include "stoker/tune/settings.h"

namespace stoker {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kMuch = 1.1;            // gains below this are little
constexpr int kMostExplored = 3;         // so many in a row without a gain
constexpr int kPairsForLittle = 9;       // that show a few percent
constexpr double kLongSlice = 1.5;       // seconds
constexpr double kWorthLong = 1.04;      // instead of kWorthTrying if slices are longer
constexpr double kMuchMore = 1.5;        // a variant that may bring so many times as much is measured first
constexpr double kBaselineSlices = 2.5;  // that the given recipe is measured for
constexpr double kSlicesOfBudget = 50;   // a short budget has short slices: one change takes twelve and more
constexpr double kCacheShare = 0.5;      // of the free memory that a cache may take
constexpr double kPackShare = 0.25;      // of the time left that packing a part of the data may take

class Tuner {
  public:
    Tuner(const Recipe& recipe, const std::vector<std::string>& sets, const TuneOptions& options, const OpenTrial& open)
        : recipe_(recipe), given_sets_(sets), options_(options), open_(open) {}

    TuneResult run() {
        try {
            measure_baseline();
        } catch (const TrialFailed& error) {
            throw TrialFailed(fmt::format("the given recipe cannot be measured: {}", error.what()));
        }
        try {
            try {
                probe_baseline();
            } catch (const TrialFailed& error) {
                throw TrialFailed(fmt::format("the costs of the given recipe cannot be measured: {}", error.what()));
            }
            while (!out_of_time() && try_next()) {
            }
            list_untried();
            compare_with_original();
        } catch (const TrialStopped&) {
            result_.interrupted = true;
        }
        remove_untried_samples();
        result_.seconds = seconds();
        return std::move(result_);
    }

  private:
    double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
    double seconds_left() const { return options_.budget_seconds - seconds(); }
    bool out_of_time() const { return seconds_left() < 0; }
    void note(const std::string& line) const {
        if (options_.on_progress) {
            options_.on_progress(line);
        }
    }

    TrialSpec spec_with(const std::vector<RecipeChange>& change) const {
        TrialSpec spec{.sets = given_sets_, .samples = samples_};
        for (const auto* changes : {&kept_, &change}) {
            const std::vector<std::string> sets = sets_of(*changes);
            spec.sets.insert(spec.sets.end(), sets.begin(), sets.end());
        }
        return spec;
    }

    // If memory does not hold another trial in addition to the recipe's, that one ends first.
    template <typename Probing>
    auto alone_if_needed(const Probing& probing) {
        try {
            return probing(/*alone=*/false);
        } catch (const TrialOutOfMemory&) {
            current_->close();
        }
        return probing(/*alone=*/true);
    }

    void measure_baseline() {
        note("measuring the given recipe");
        if (recipe_.data.cache != "none") {  // the first pass fills the cache and is not counted
            const TrialSpec cold = spec_with({{"data.cache", "\"none\""}});
            samples_ = samples_of_pass(probe(open_, cold, Part::both, {}).costs, recipe_.data.batch_size);
        }
        original_ = spec_with({});
        current_ = std::make_unique<Contender>(open_, original_);
        facts_ = current_->facts();
        const double least = std::clamp(options_.budget_seconds / kSlicesOfBudget, 0.1, 0.4);
        baseline_ = current_->measure(kBaselineSlices * least);
        slice_seconds_ = slice_of(baseline_, least);
        result_.baseline = baseline_.rate();
        result_.tuned = result_.baseline;
        setting_ = {.workers = facts_.workers, .threads = facts_.threads};
        tried_.push_back(setting_);
        variants_ = variants_of(recipe_, facts_, options_.allowed);
    }

    void probe_baseline() {
        note(fmt::format("{:.1f} images/s; measuring step and loader one by one", result_.baseline));
        costs_ = alone_if_needed([&](bool alone) {
            const ProbeOptions options{.seconds = slice_seconds_, .samples = samples_, .alone = alone};
            return probe(open_, original_, Part::both, options).costs;
        });
        if (static_cast<double>(facts_.data_bytes) > facts_.memory_left) {
            costs_.fetch = storage_rates();
        }
        add_overhead(costs_);
    }

    // Storage's rates for the data in their present form. Measured once, when a prediction needs them.
    const std::vector<FetchRate>& storage_rates() {
        if (storage_rates_.empty()) {
            storage_rates_ = alone_if_needed(
                [&](bool alone) { return probe_fetch(open_, original_, {.seconds = slice_seconds_, .alone = alone}); });
        }
        return storage_rates_;
    }

    // The training thread's time for an image outside of waiting and the step: records and bookkeeping. A GPU works on
    // meanwhile.
    void add_overhead(Costs& costs) const {
        const auto images = static_cast<double>(std::max<std::int64_t>(baseline_.images, 1));
        const auto between = baseline_.host.times[static_cast<std::size_t>(Phase::unmeasured)];
        const double overhead = std::chrono::duration<double>(between).count() / images;
        for (StepCost& cost : costs.step) {
            cost.seconds += costs.on_device ? 0 : overhead;
            cost.cpu_seconds += overhead;
        }
    }

    double predicted(const Costs& costs, const Setting& setting) const {
        return predict_gain(costs_, setting_, costs, setting);
    }

    std::vector<Candidate> candidates() {
        std::vector<Candidate> all;
        for (const Setting& setting : settings_to_try(costs_, facts_.device != "cpu")) {
            if (!was_tried(setting)) {
                all.push_back({.change = changes_to(setting),
                               .setting = setting,
                               .predicted = correction_ * predicted(costs_, setting)});
            }
        }
        for (Variant& variant : variants_) {
            const bool packs = !variant.pack_codec.empty();
            if (variant.tried || !variant.refused.empty() || (packs && (!options_.pack_sample || holds_pixels())) ||
                (variant.queue && setting_.workers == 0)) {
                continue;
            }
            if (variant.queue) {
                all.push_back(
                    {.change = variant.change, .setting = setting_, .variant = &variant, .predicted = queue_gain()});
                continue;
            }
            const Costs costs = variant.costs ? with_variant(costs_, variant) : without_part(costs_, variant.part);
            const bool along = !packs && !variant.tried_along;
            const Setting setting = along ? fastest_setting(costs, setting_, correction_) : setting_;
            std::vector<RecipeChange> change = variant.change;
            std::ranges::move(changes_to(setting), std::back_inserter(change));
            const double correction =
                (setting == setting_ ? 1 : correction_) * (variant.part == Part::loader ? shortfall_ : 1);
            all.push_back({.change = std::move(change),
                           .setting = setting,
                           .variant = &variant,
                           .predicted = correction * predicted(costs, setting)});
        }
        return all;
    }

    // A cache holds what decoding gives, so that the format of the data counts in the first epoch alone.
    bool holds_pixels() const {
        return recipe_.data.cache_as == "decoded" && (recipe_.data.cache != "none" || has_cache(kept_));
    }

    // With batches enough ahead the rate is what the costs promise, and nobody waits. No more than the wait is gained.
    double queue_gain() const {
        return std::min(predict_rate(costs_, setting_) / result_.tuned, 1 / (1 - current_->wait_share()));
    }

    bool was_tried(const Setting& setting) const { return std::ranges::find(tried_, setting) != tried_.end(); }

    std::vector<RecipeChange> changes_to(const Setting& setting) const {
        std::vector<RecipeChange> change;
        if (setting.workers != setting_.workers) {
            change.push_back({"data.workers", fmt::to_string(setting.workers)});
        }
        if (setting.threads != setting_.threads) {
            change.push_back({"train.threads", fmt::to_string(setting.threads)});
        }
        return change;
    }

    // Tries the best prediction, but first measures the costs of a variant that may bring much more; if none promises a
    // gain, those of any variant that might, packing last; then a few neighbours. False once nothing is left.
    bool try_next() {
        const std::vector<Candidate> all = candidates();
        const auto hopeful = [this](const Candidate& each) { return !each.known() && each.predicted >= worth(); };
        const auto* best = best_of(all, [&](const auto& each) { return each.known() && each.predicted >= worth(); });
        const auto* hope = best_of(all, [&](const auto& each) { return hopeful(each) && !each.packs(); });
        if (best != nullptr && (hope == nullptr || hope->predicted < kMuchMore * best->predicted)) {
            try_candidate(*best);
            return true;
        }
        if (hope == nullptr) {
            hope = best_of(all, hopeful);
        }
        if (hope != nullptr) {
            probe_variant(*hope->variant);
            return true;
        }
        const Candidate* near = neighbour_of(setting_, all, costs_.cores, facts_.device != "cpu");
        if (near != nullptr && explored_ < (slow() ? 1 : kMostExplored)) {
            try_candidate(*near);
            return true;
        }
        return false;
    }

    // The candidates that are left if the time has ended the search; none if nothing was left to try.
    void list_untried() {
        for (const Candidate& each : promising(candidates(), worth())) {
            result_.untried.push_back(
                {.change = each.packs() ? std::vector<RecipeChange>() : each.change,
                 .pack_codec = each.packs() ? each.variant->pack_codec : "",
                 .predicted = each.known() ? std::optional(each.predicted) : std::nullopt,
                 .reason = each.known() ? "the time was spent"
                                        : fmt::format("the time was spent; at most {:.2f}x", each.predicted)});
        }
    }

    // Whether steps are so long that a few percent are not worth a comparison, which takes half a minute and more.
    bool slow() const { return slice_seconds_ > kLongSlice; }
    double worth() const { return slow() ? kWorthLong : kWorthTrying; }  // the least prediction that promises something

    // Samples whose cached pixels, or packed records, stand for the whole data set.
    std::int64_t sample_count() const {
        return samples_ > 0 ? samples_ : std::min(facts_.samples, samples_of_pass(costs_, recipe_.data.batch_size));
    }

    void probe_variant(Variant& variant) {
        note(fmt::format("measuring the costs of {}", name_of(variant)));
        try {
            std::vector<FetchRate> fetch = costs_.fetch;
            if (!variant.pack_codec.empty()) {
                const auto packed = pack(variant);
                if (!packed) {
                    variant.refused = "the data cannot be packed so";
                    return;
                }
                fetch = fetch_of(*packed);
            }
            const bool cache = has_cache(variant.change);
            const std::int64_t samples = cache ? sample_count() : samples_;
            // Room for all that is read, so that the cache's bytes are those of the samples.
            const auto probed =
                cache ? with_cache_bytes(variant.change, kCacheShare * facts_.memory_left) : variant.change;
            const ProbeResult found = alone_if_needed([&](bool alone) {
                return probe(open_, spec_with(probed), variant.part,
                             {.seconds = slice_seconds_, .samples = samples, .alone = alone});
            });
            variant.costs = found.costs;
            add_overhead(*variant.costs);
            variant.costs->fetch = cache ? std::vector<FetchRate>() : std::move(fetch);
            if (cache) {
                fit_cache(variant, found.cached_bytes);
            }
        } catch (const TrialFailed& error) {
            variant.refused = error.what();
            remove_sample(variant);
            result_.rolled_back.push_back(
                {.change = variant.pack_codec.empty() ? variant.change : std::vector<RecipeChange>(),
                 .pack_codec = variant.pack_codec,
                 .reason = error.what()});
        }
    }

    std::optional<PackedPart> pack(Variant& variant) const {
        std::optional<PackedPart> packed = options_.pack_sample(
            {.codec = variant.pack_codec, .samples = sample_count(), .seconds = kPackShare * seconds_left()});
        if (packed) {
            variant.sample = packed->path;
            variant.change = {{"data.train", toml_string(packed->path.string())}};
        }
        return packed;
    }

    // The rates for all the data, packed as this part: from memory if they fit, and otherwise by the bytes of a sample.
    std::vector<FetchRate> fetch_of(const PackedPart& packed) {
        const auto samples = static_cast<double>(facts_.samples);
        if (packed.bytes_per_sample * samples <= facts_.memory_left) {
            return {};
        }
        std::vector<FetchRate> rates = storage_rates();
        for (FetchRate& rate : rates) {
            rate.rate *= static_cast<double>(facts_.data_bytes) / samples / packed.bytes_per_sample;
        }
        return rates;
    }

    // Packed parts whose costs were measured, and promised too little to try them.
    void remove_untried_samples() const {
        for (const Variant& variant : variants_) {
            if (!variant.tried) {
                remove_sample(variant);
            }
        }
    }

    // The bytes of all samples: a run's cache is divided between training and validation data by their samples.
    double cache_bytes(double sample_bytes) const {
        constexpr double kRoom = 1.05;     // other samples may be larger
        constexpr double kUnknown = 1.25;  // with validation data of a fourth as many samples
        const auto train = static_cast<double>(facts_.samples);
        const auto val = options_.val_samples ? options_.val_samples() : std::nullopt;
        return sample_bytes * (val ? kRoom * (train + static_cast<double>(*val)) : kUnknown * train);
    }

    // A cache that cannot hold all samples is not tried: with a random order it helps too little.
    void fit_cache(Variant& variant, double sample_bytes) {
        const double bytes = cache_bytes(sample_bytes);
        if (bytes > kCacheShare * facts_.memory_left) {
            variant.refused = fmt::format("the cache would take {:.1f} GiB", bytes / (1 << 30));
            result_.rolled_back.push_back({.change = variant.change, .reason = variant.refused});
        } else if (bytes > static_cast<double>(recipe_.data.cache_bytes)) {
            variant.change = with_cache_bytes(std::move(variant.change), bytes);
        }
    }

    void try_candidate(const Candidate& candidate) {
        const std::size_t kept = result_.kept.size();
        measure_candidate(candidate);
        if (candidate.variant != nullptr && result_.kept.size() == kept) {
            remove_sample(*candidate.variant);
        }
    }

    void measure_candidate(const Candidate& candidate) {
        mark_tried(candidate);
        TriedChange tried{.change = candidate.packs() ? std::vector<RecipeChange>() : candidate.change,
                          .before = values_before(candidate.change),
                          .pack_codec = candidate.packs() ? candidate.variant->pack_codec : "",
                          .predicted = candidate.predicted};
        note(fmt::format("{}: predicted {:.2f}x",
                         candidate.packs() ? name_of(*candidate.variant) : text_of(candidate.change),
                         candidate.predicted));
        TrialSpec spec = spec_with(candidate.change);
        const std::int64_t samples = has_cache(candidate.change) ? sample_count() : samples_;
        spec.samples = tried.pack_codec.empty() ? samples : 0;
        auto contender = std::make_unique<Contender>(open_, spec);
        PairedResult pairs;
        try {
            pairs =
                compare(*current_, *contender, slice_seconds_, effort_for(candidate), [this] { return out_of_time(); });
        } catch (const TrialFailed& error) {
            tried.reason = error.what();
            result_.rolled_back.push_back(std::move(tried));
            explored_ += candidate.predicted < worth() ? 1 : 0;
            return;
        }
        tried.measured = pairs.ratio;
        if (pairs.decision != Decision::better) {
            const bool undecided = pairs.decision == Decision::open && out_of_time();
            tried.reason = undecided ? "the time was spent" : pairs.ratio.high < 1 ? "slower" : "no gain shown";
            note_measured(pairs.ratio, "rolled back: " + tried.reason);
            result_.rolled_back.push_back(std::move(tried));
            explored_ += candidate.predicted < worth() ? 1 : 0;
            if (candidate.variant == nullptr && candidate.predicted >= worth()) {
                // No lower than for a setting that changes nothing: that one is slow says nothing of the others.
                correction_ *= std::min(std::max(pairs.ratio.median, 1.0) / candidate.predicted, 1.0);
            }
        } else if (!tried.pack_codec.empty() && !options_.keep_packed) {
            note_measured(pairs.ratio, "suggested");
            result_.suggested.push_back(std::move(tried));
        } else {
            note_measured(pairs.ratio, "kept");
            tried.change = candidate.change;
            keep(candidate, std::move(tried), std::move(contender), samples, pairs);
        }
    }

    // If little is predicted, a comparison has to show it soon.
    PairedOptions effort_for(const Candidate& candidate) const {
        PairedOptions paired = options_.paired;
        if (candidate.predicted < kMuch) {
            paired.most = std::min(paired.most, kPairsForLittle);
            paired.worth = std::max(paired.worth, 1.01);
        }
        return paired;
    }

    void note_measured(const Estimate& ratio, const std::string& outcome) const {
        note(fmt::format("  measured {}; {}", text_of(ratio), outcome));
    }

    // Each kept change was measured against the recipe before it. The whole gain of several is measured too, against
    // the original recipe: at least until it has an interval, even if the time is spent.
    void compare_with_original() {
        if (result_.kept.size() < 2) {
            return;
        }
        note("comparing with the original recipe");
        Contender original(open_, original_);
        try {
            const PairedResult pairs = compare(
                original, *current_, slice_seconds_,
                {.margin = 0, .least = options_.paired.least, .most = options_.paired.least}, [] { return false; });
            result_.baseline = median(pairs.a);
            result_.tuned = median(pairs.b);
            result_.gain = pairs.ratio;
        } catch (const TrialFailed& error) {
            note(fmt::format("  not measured: {}", error.what()));
        }
    }

    void mark_tried(const Candidate& candidate) {
        if (candidate.variant != nullptr) {
            (candidate.setting == setting_ ? candidate.variant->tried : candidate.variant->tried_along) = true;
        } else {
            tried_.push_back(candidate.setting);
        }
    }

    // As TOML; of the recipe with what was kept. The data are those of the recipe, also if they were packed before.
    std::vector<std::string> values_before(const std::vector<RecipeChange>& change) const {
        std::vector<std::string> values;
        for (const RecipeChange& each : change) {
            const auto kept = std::ranges::find(kept_, each.key, &RecipeChange::key);
            values.push_back(kept != kept_.end() && each.key != "data.train"
                                 ? kept->value
                                 : find_schema_key(each.key)->write(recipe_));
        }
        return values;
    }

    void keep(const Candidate& candidate, TriedChange tried, std::unique_ptr<Contender> contender, std::int64_t samples,
              const PairedResult& pairs) {
        for (const RecipeChange& each : candidate.change) {
            std::erase_if(kept_, [&](const RecipeChange& other) { return other.key == each.key; });
            kept_.push_back(each);
        }
        current_ = std::move(contender);
        samples_ = samples;
        tried_.push_back(setting_);
        Costs costs = candidate.variant != nullptr ? with_variant(costs_, *candidate.variant) : costs_;
        shortfall_ = std::max(shortfall_ * predicted(costs, candidate.setting) / pairs.ratio.median, 1.0);
        if (candidate.variant != nullptr) {
            candidate.variant->tried = true;
            costs_ = std::move(costs);
            tried_.clear();  // with other costs another number of workers may be better
        }
        setting_ = candidate.setting;
        if (result_.kept.empty()) {
            result_.baseline = median(pairs.a);
            result_.gain = pairs.ratio;
        } else {
            result_.gain.reset();
        }
        result_.tuned = median(pairs.b);
        tried_.push_back(setting_);
        explored_ = 0;
        // A setting that is better than its costs say has what the others lack.
        correction_ =
            candidate.variant != nullptr ? 1 : std::min(candidate.predicted / correction_ / pairs.ratio.median, 1.0);
        result_.kept.push_back(std::move(tried));
    }

    const Recipe& recipe_;
    const std::vector<std::string>& given_sets_;
    const TuneOptions& options_;
    const OpenTrial& open_;
    const Clock::time_point begin_ = Clock::now();
    TuneResult result_;
    std::unique_ptr<Contender> current_;
    TrialFacts facts_;      // of the original recipe
    Measurement baseline_;  // the same
    double slice_seconds_ = 1;
    Setting setting_;
    Costs costs_;
    std::vector<FetchRate> storage_rates_;
    std::vector<Variant> variants_;
    std::vector<RecipeChange> kept_;
    std::vector<Setting> tried_;
    TrialSpec original_;
    std::int64_t samples_ = 0;  // of each trial; 0: all
    int explored_ = 0;
    // Lowers the predictions for workers and threads once some brought less than predicted.
    double correction_ = 1;
    // The setting that is there trains so many times slower than its costs say. A loader that does less may help.
    double shortfall_ = 1;
};

}  // namespace

TuneResult tune(const Recipe& recipe, const std::vector<std::string>& sets, const TuneOptions& options,
                const OpenTrial& open) {
    return Tuner(recipe, sets, options, open).run();
}

}  // namespace stoker
