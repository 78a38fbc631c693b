#include "stoker/train/run/rank_sync.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/base/pluralize.h"

namespace stoker {
namespace {

std::string joined(const std::vector<std::string>& texts) {
    return std::accumulate(texts.begin(), texts.end(), std::string());
}

}  // namespace

void require_budget(const Group& group, const BadSamples& allowed, const Dataset& dataset, std::int64_t places,
                    std::int64_t bad_samples) {
    const std::int64_t budget = allowed.of(places);
    if (!group.alone() && bad_samples > budget) {
        throw DataError({.path = dataset.path()},
                        {.where = "data.bad_samples",
                         .expected = fmt::format("at most {} in an epoch", pluralize(budget, "bad sample")),
                         .got = fmt::format("{} over all ranks", bad_samples),
                         .hint = "`stoker inspect DATA --verify` lists what is damaged; repair the data or raise "
                                 "data.bad_samples"});
    }
}

void RankSync::start(const SharedState& state) const {
    if (!group_.alone()) {
        group_.reset_delayed_max();
        mesh_.tensor->broadcast(state.whole);
        mesh_.data->broadcast(state.whole);
        mesh_.data->broadcast(state.slices);
    }
}

std::int64_t RankSync::merge(std::vector<StepResult>& steps, std::vector<double>& losses, std::int64_t bad_samples,
                             const Loader& loader) const {
    group_.check();  // the losses have been fetched: the device has done its steps
    mesh_.figures->all_reduce(losses);
    const Group& group = *mesh_.data;
    if (group.alone()) {
        return bad_samples;
    }
    std::array bad = {static_cast<double>(bad_samples)};
    group.all_reduce(bad);
    bad_samples = static_cast<std::int64_t>(bad[0]);
    const auto count = static_cast<std::int64_t>(steps.size());
    // (steps, largest slice), -1 where a slice is smaller
    const at::Tensor own = at::full({count, loader.batch_sampler().max_slice()}, -1, at::kLong);
    for (std::int64_t i = 0; i < count; ++i) {
        std::ranges::copy(steps[static_cast<std::size_t>(i)].indices, own[i].mutable_data_ptr<std::int64_t>());
    }
    const at::Tensor all = group.all_gather(own).transpose(0, 1).contiguous();  // (steps, ranks, largest slice)
    for (std::int64_t i = 0; i < count; ++i) {
        const at::Tensor slices = all[i];
        const std::int64_t* first = slices.const_data_ptr<std::int64_t>();
        StepResult& step = steps[static_cast<std::size_t>(i)];
        step.indices.clear();
        std::copy_if(first, first + slices.numel(), std::back_inserter(step.indices),
                     [](std::int64_t index) { return index >= 0; });
        if (group.first()) {
            step.batch_hash = 0;
            for (const std::int64_t index : step.indices) {  // as Batch::hash
                step.batch_hash = hash_text(loader.dataset().key(index), step.batch_hash);
            }
        }
    }
    return bad_samples;
}

std::vector<double> RankSync::of_stages(double mine) const {
    std::array value = {mine};
    mesh_.data->all_reduce(value);
    const at::Tensor mean = at::full({}, value[0] / mesh_.data->size(), at::kDouble);
    const at::Tensor all = mesh_.pipeline->all_gather(mean);  // (stages)
    const auto* first = all.const_data_ptr<double>();
    return {first, first + all.numel()};
}

at::Tensor RankSync::roll(const at::Tensor& slice, const BatchSampler& sampler, std::int64_t number) const {
    const auto [before, after] = sampler.neighbours(number);
    const std::int64_t rest = slice.size(0) - 1;
    const at::Tensor first = mesh_.data->exchange(slice.narrow(0, rest, 1), after, before);
    return at::cat({first, slice.narrow(0, 0, rest)}, 0);
}

std::string RankSync::add_bad_samples(std::string lines) {
    if (group_.first()) {
        return lines;
    }
    const bool counts = mesh_.tensor->first() && mesh_.pipeline->first();  // the others have read the same samples
    kept_ += counts ? lines : "";
    return "";
}

std::string RankSync::gather_bad_samples() {
    if (group_.alone()) {
        return "";
    }
    std::string lines = joined(group_.all_gather(kept_));
    kept_.clear();  // not before: if a rank is lost, they are still to be published
    return lines;
}

std::string RankSync::gather_lines(const std::string& lines) const {
    return group_.alone() ? lines : joined(group_.all_gather(lines));
}

std::string RankSync::publish_bad_samples() {
    if (group_.first()) {
        return joined(group_.messages());
    }
    group_.post_message(std::exchange(kept_, {}));
    return "";
}

}  // namespace stoker
