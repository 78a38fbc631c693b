// One training step of a multi-layer perceptron in one hand-written path: forward, loss, backward and the optimiser's
// update, without a graph, a tensor or an allocation. The same bits for any number of threads and any processor.
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

// A Linear layer's memory, the caller's own: parameters and the optimiser's state as torch lays them out, float32,
// zeros in a fresh state. What an optimiser does not keep may be null.
struct FusedLayer {
    float* weight;                   // (out, in)
    float* bias;                     // (out)
    float* weight_first = nullptr;   // (out, in): exp_avg, or momentum_buffer where momentum is not 0
    float* bias_first = nullptr;     // (out)
    float* weight_second = nullptr;  // (out, in): exp_avg_sq
    float* bias_second = nullptr;    // (out)

    bool operator==(const FusedLayer&) const = default;
};

struct FusedBatch {
    const float* x;                       // (samples, inputs)
    const std::int64_t* label = nullptr;  // (samples), cross entropy
    const float* target = nullptr;        // (samples, outputs), mse
    std::int64_t samples;
};

class FusedMlp {
  public:
    // One layer for each two neighbours in options.widths. Throws InvalidArgument where options or memory do not fit.
    FusedMlp(FusedMlpOptions options, std::span<const FusedLayer> layers,
             const FusedKernels& kernels = best_fused_kernels());
    ~FusedMlp();

    // One step in place. `number` counts an optimiser's steps from 1. Returns the sum of the samples' losses before the
    // update (mse: of each sample's mean over its outputs). Any number of samples at any time; memory is kept. Throws
    // InvalidArgument for a label that is no class, before anything has changed.
    double step(const FusedBatch& batch, double lr, std::int64_t number);

    // x (samples, inputs) to outputs (samples, outputs), before softmax.
    void forward(const float* x, std::int64_t samples, float* outputs);

    const FusedMlpOptions& options() const { return options_; }

  private:
    struct Layer;
    struct Run;
    struct Share;

    void prepare(std::int64_t samples, bool training);
    void check(const FusedBatch& batch, std::int64_t number) const;
    std::size_t first_by_samples(std::int64_t samples) const;
    Share share_of(const Run& run, bool by_samples, int features, int member) const;

    // What one member of the team does.
    void forward_pass(const Run& run, int member);
    void layer_forward(const Run& run, int member, std::size_t l, const Share& part);
    void loss(const Run& run, int member);
    void backward_pass(const Run& run, int member);
    void layer_backward(std::size_t l, const Share& part);
    void update_pass(const Run& run, int member);
    void layer_update(const Run& run, int member, std::size_t l);
    const float* copied_inputs(const Run& run, int member, std::size_t l, int j, int columns);
    void write_outputs(float* outputs, std::int64_t samples_begin, std::int64_t samples_end);

    FusedMlpOptions options_;
    const FusedKernels& kernels_;
    std::vector<Layer> layers_;
    std::vector<Buffer> scratch_;        // a member's own: transposed inputs
    std::vector<double> sample_losses_;  // (samples)
    Team team_;
};

}  // namespace stoker
