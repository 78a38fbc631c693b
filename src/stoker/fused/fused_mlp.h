// One training step of a multi-layer perceptron: forward, cross entropy, backward and the optimiser's update, without
// autograd, tensors or allocations. Gives the same bits for any number of threads and any processor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/fused/options.h"
#include "stoker/fused/team.h"

namespace stoker {

struct FusedKernels;
const FusedKernels& best_fused_kernels();

// A Linear layer's memory, owned by the caller: float32 parameters and optimiser state in torch's layout. A fresh state
// is zeros; state that the optimiser does not use may be null.
struct FusedLayer {
    float* weight;                   // (out, in)
    float* bias;                     // (out)
    float* weight_first = nullptr;   // (out, in): exp_avg, or momentum_buffer if momentum is not 0
    float* bias_first = nullptr;     // (out)
    float* weight_second = nullptr;  // (out, in): exp_avg_sq
    float* bias_second = nullptr;    // (out)

    bool operator==(const FusedLayer&) const = default;
};

struct FusedBatch {
    const float* x;             // (samples, inputs)
    const std::int64_t* label;  // (samples)
    std::int64_t samples;
};

class FusedMlp {
  public:
    // One layer per pair of neighbours in options.widths. Throws InvalidArgument for options or memory that do not fit.
    FusedMlp(FusedMlpOptions options, std::span<const FusedLayer> layers,
             const FusedKernels& kernels = best_fused_kernels());
    ~FusedMlp();

    // One step in place. `number` counts the optimiser's steps from 1. Returns the sum of the samples' losses before
    // the update. The number of samples may differ from step to step; memory is reused. Throws InvalidArgument for a
    // label outside the classes, before anything is changed.
    double step(const FusedBatch& batch, double lr, std::int64_t number);

    const FusedMlpOptions& options() const { return options_; }

  private:
    struct Layer;
    struct Run;
    struct Share;

    void allocate(std::int64_t samples);
    void check(const FusedBatch& batch, std::int64_t number) const;
    std::size_t first_by_samples(std::int64_t samples) const;
    Share share_of(const Run& run, bool by_samples, int features, int member) const;

    // The part of one member of the team.
    void forward_pass(const Run& run, int member);
    void layer_forward(const Run& run, int member, std::size_t l, const Share& part);
    void loss(const Run& run, int member);
    void backward_pass(const Run& run, int member);
    void layer_backward(std::size_t l, const Share& part);
    void layer_update(const Run& run, int member, std::size_t l);
    const float* copied_inputs(const Run& run, int member, std::size_t l, int j, int columns);

    FusedMlpOptions options_;
    const FusedKernels& kernels_;
    std::vector<Layer> layers_;
    std::vector<Buffer> scratch_;        // one per member: transposed inputs
    std::vector<double> sample_losses_;  // (samples)
    Team team_;
};

}  // namespace stoker
