// What the ranks of a run tell each other besides gradients: where they begin, what their batches were together, and
// which samples were bad.
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/base/pluralize.h"
#include "stoker/train/trainer.h"

namespace stoker {

// All begin with the first rank's state, to the bit, and without the votes of an earlier run.
void Trainer::share_state() {
    if (group_->alone()) {
        return;
    }
    group_->agree_anew();
    std::vector<NamedTensor> state = model_->state();
    const auto add = [&](const std::vector<NamedTensor>& more) { state.insert(state.end(), more.begin(), more.end()); };
    add(optimizer_.state());
    if (const Scaler* scaler = step_.scaler()) {
        add(scaler->state());
    }
    if (const Ema* ema = step_.ema()) {
        add(ema->state());
    }
    std::vector<at::Tensor> tensors;
    for (const auto& [name, tensor] : state) {
        tensors.push_back(tensor);
    }
    group_->broadcast(tensors);
}

// From what each rank knows of its slices to the figures of the whole batches: losses, samples and their hash.
void Trainer::join_ranks(std::vector<Pending>& steps, std::vector<double>& losses) {
    const PhaseSpan span(account_, Phase::communication);
    losses.push_back(static_cast<double>(bad_here_));
    group_->all_reduce(losses);
    bad_here_ = static_cast<std::int64_t>(losses.back());
    losses.pop_back();
    const auto count = static_cast<std::int64_t>(steps.size());
    const at::Tensor own = at::full({count, train_->batch_sampler().max_slice()}, -1, at::kLong);
    for (std::int64_t i = 0; i < count; ++i) {
        std::ranges::copy(steps[static_cast<std::size_t>(i)].indices, own[i].mutable_data_ptr<std::int64_t>());
    }
    const at::Tensor all = group_->all_gather(own).transpose(0, 1).contiguous();  // (steps, ranks, largest slice)
    for (std::int64_t i = 0; i < count; ++i) {
        const at::Tensor slices = all[i];
        const std::int64_t* first = slices.const_data_ptr<std::int64_t>();
        Pending& step = steps[static_cast<std::size_t>(i)];
        step.indices.clear();
        std::copy_if(first, first + slices.numel(), std::back_inserter(step.indices),
                     [](std::int64_t index) { return index >= 0; });
        if (group_->first()) {
            step.metric.batch_hash = 0;
            for (const std::int64_t index : step.indices) {
                step.metric.batch_hash = hash_text(data_.train->key(index), step.metric.batch_hash);  // as Batch::hash
            }
        }
    }
    gather_bad_samples();
    require_budget(*data_.train, train_->batch_sampler().options().size, running_.bad_samples + bad_here_);
}

void Trainer::note_bad_samples(std::span<const BadSample> samples, const Dataset& dataset) {
    const std::string lines = Quarantine::lines(samples, dataset, group_->rank());
    if (group_->first()) {
        quarantine_.note(lines);
    } else {
        bad_lines_ += lines;
    }
}

void Trainer::gather_bad_samples() {
    if (group_->alone()) {
        return;
    }
    for (const std::string& lines : group_->all_gather(bad_lines_)) {
        quarantine_.note(lines);
    }
    bad_lines_.clear();
}

// When a run fails: what the ranks have met since they last met each other would be lost, and may be why.
void Trainer::tell_bad_samples() {
    if (!group_->first()) {
        group_->tell(std::exchange(bad_lines_, {}));
    } else if (folder_) {
        try {
            for (const std::string& lines : group_->told()) {
                quarantine_.note(lines);
            }
        } catch (const IoError&) {  // what ended the run is to be told, and not that this failed as well
        }
    }
}

// A rank's loader stops at a number of its own; this is all ranks' together.
void Trainer::require_budget(const Dataset& dataset, std::int64_t places, std::int64_t bad) const {
    const std::int64_t budget = recipe_.data.bad_samples.of(places);
    if (!group_->alone() && bad > budget) {
        throw DataError(
            {.path = dataset.path()},
            {.where = "data.bad_samples",
             .expected = fmt::format("at most {} in an epoch", pluralize(budget, "bad sample")),
             .got = fmt::format("{} over all ranks", bad),
             .hint = "`stoker inspect --verify` lists them all; repair the data or raise data.bad_samples"});
    }
}

}  // namespace stoker
