// The exchange between the ranks of a run besides gradients: the state they start from, losses and sample indices, bad
// samples and the vote to stop. In a group of one nothing is exchanged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stoker/dist/group.h"
#include "stoker/pipeline/loader.h"
#include "stoker/recipe/recipe.h"
#include "stoker/train/run/train_result.h"

namespace stoker {

class RankSync {
  public:
    // `budget`: data.bad_samples, which limits the bad samples of all ranks together. `group` must outlive this object.
    RankSync(Group& group, const BadSamples& budget) : group_(group), budget_(budget) {}

    // Overwrites `state` with rank 0's, bit for bit, and forgets the stop votes of an earlier run.
    void start(const std::vector<at::Tensor>& state) const;

    // Turns what each rank recorded of its slices into the figures of whole batches: `losses` are summed, `steps` get
    // all indices and, on rank 0, the batch's hash. Returns the sum of the ranks' `bad_samples`.
    std::int64_t merge(std::vector<StepResult>& steps, std::vector<double>& losses, std::int64_t bad_samples,
                       const Loader& loader) const;

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
    // Throws DataError where more of `places` samples are bad on all ranks together than the budget allows. A single
    // process' loader checks this itself.
    void require_budget(const Dataset& dataset, std::int64_t places, std::int64_t bad_samples) const;

    // The largest signal that any rank gave at its previous call; with one rank, `signal`. 0: go on.
    int vote(int signal) const { return group_.delayed_max(signal); }

  private:
    Group& group_;
    BadSamples budget_;
    std::string kept_;
};

}  // namespace stoker
