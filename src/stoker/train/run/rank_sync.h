// The exchange between the ranks of a run besides gradients: the state they start from, losses and sample indices, bad
// samples and the vote to stop. In a group of one nothing is exchanged. Ranks that share one copy of the model have the
// same samples: only one of them is counted or summed. The last of several stages has the losses.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "stoker/dist/group.h"
#include "stoker/dist/mesh.h"
#include "stoker/pipeline/loader.h"
#include "stoker/recipe/recipe.h"
#include "stoker/train/run/train_result.h"

namespace stoker {

// Throws DataError where more of `places` samples are bad on all ranks together than the budget allows. A single
// process' loader checks this itself.
void require_budget(const Group& group, const BadSamples& allowed, const Dataset& dataset, std::int64_t places,
                    std::int64_t bad_samples);

class RankSync {
  public:
    // `budget`: data.bad_samples, which limits the bad samples of all ranks together. `group`, of all ranks, must
    // outlive this object.
    RankSync(Group& group, Mesh mesh, const BadSamples& budget)
        : group_(group), mesh_(std::move(mesh)), budget_(budget) {}

    // The tensors that ranks have alike when a run starts, in the same order on each.
    struct SharedState {
        std::vector<at::Tensor> whole = {};   // alike on all ranks, or all of a stage
        std::vector<at::Tensor> slices = {};  // alike where ranks have the same slices of the model
    };
    // Overwrites `state` with that of rank 0's copy of the model, and the tensors that a stage's ranks share with its
    // first rank's, bit for bit. Forgets the stop votes of an earlier run.
    void start(const SharedState& state) const;

    // Turns what each rank recorded of its slices into the figures of whole batches: `losses` are summed, `steps` get
    // all indices and, on rank 0, the batch's hash. Returns the sum of the ranks' `bad_samples`.
    std::int64_t merge(std::vector<StepResult>& steps, std::vector<double>& losses, std::int64_t bad_samples,
                       const Loader& loader) const;

    // For each stage of the model, the mean over the copies. All ranks must call it.
    std::vector<double> of_stages(double mine) const;

    // `roll_samples` (mixup_cutmix.h) over the whole batch `number`; `slice` (N, ...) is this rank's part of it, with
    // at least one sample. Every rank that has samples must call it.
    at::Tensor roll(const at::Tensor& slice, const BatchSampler& sampler, std::int64_t number) const;

    // Takes lines for quarantine.jsonl (Quarantine::lines) of this rank's bad samples. Returns those to write now: all
    // on rank 0; other ranks keep theirs until `gather_bad_samples`.
    std::string add_bad_samples(std::string lines);
    // The kept lines of all ranks.
    std::string gather_bad_samples();
    // The lines of all ranks, one after the other. All ranks must call it.
    std::string gather_lines(const std::string& lines) const;
    // For a run that fails on this rank: publishes the kept lines. Returns those that other ranks published before, on
    // rank 0. Does not throw.
    std::string publish_bad_samples();
    void require_budget(const Dataset& dataset, std::int64_t places, std::int64_t bad_samples) const {
        stoker::require_budget(*mesh_.data, budget_, dataset, places, bad_samples);
    }

    // The largest signal that any rank gave at its previous call; with one rank, `signal`. 0: go on.
    int vote(int signal) const { return group_.delayed_max(signal); }

  private:
    Group& group_;
    Mesh mesh_;
    BadSamples budget_;
    std::string kept_;
};

}  // namespace stoker
