// The number of threads follows from the work of a step.
#include "stoker/train/step/fused_step.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

namespace stoker {
namespace {

// Multiplications and additions for which a thread pays off: about 50 us of work between two barriers.
constexpr double kFlopsPerThread = 8e6;

int threads_for(const std::vector<int>& widths, std::int64_t samples) {
    double flops = 0;
    for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
        flops += 6.0 * widths[l] * widths[l + 1] * static_cast<double>(samples);
    }
    return std::clamp(static_cast<int>(flops / kFlopsPerThread), 1, at::get_num_threads());
}

}  // namespace

void FusedStep::train(const DeviceBatch& batch, double lr, std::int64_t samples) {
    const PhaseSpan span(account_, Phase::step);
    std::vector<FusedLayer> memory;
    for (const FusedLayerTensors& layer : layers_.layers) {
        memory.push_back(layer.memory());
    }
    const int most = at::get_num_threads();
    if (mlp_ == nullptr || memory != memory_ || most != most_threads_) {  // a parameter may have got other memory
        most_threads_ = most;
        layers_.options.threads = threads_for(layers_.options.widths, samples);
        mlp_ = std::make_unique<FusedMlp>(layers_.options, memory);
        memory_ = std::move(memory);
    }
    const at::Tensor x = fused_input(batch, layers_.options.widths.front());
    const at::Tensor label = batch.target.contiguous();  // (N)
    const float done = *layers_.layers.front().weight.steps.const_data_ptr<float>();
    const double sum =
        mlp_->step({.x = x.const_data_ptr<float>(), .label = label.const_data_ptr<std::int64_t>(), .samples = samples},
                   lr, static_cast<std::int64_t>(done) + 1);
    for (const FusedLayerTensors& layer : layers_.layers) {
        *layer.weight.steps.mutable_data_ptr<float>() += 1;
        *layer.bias.steps.mutable_data_ptr<float>() += 1;
    }
    *last_loss().mutable_data_ptr<float>() = static_cast<float>(sum / static_cast<double>(samples));
    ema_.update();
}

}  // namespace stoker
