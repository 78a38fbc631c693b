// Wraps your own torch::nn::Module as a Stoker model. No other header of Stoker includes torch/nn, which is slow to
// compile: include this one only where you define your network.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <utility>

#include "stoker/models/model.h"

namespace stoker {

// Net derives from torch::nn::Module and has `at::Tensor forward(at::Tensor)`.
template <typename Net>
class TorchModule final : public Model {
  public:
    // `channels_last`: true for a network of convolutions, which are faster on images and weights in (N, H, W, C)
    // memory; train.channels_last only works with it.
    explicit TorchModule(std::shared_ptr<Net> net, bool channels_last = false)
        : net_(std::move(net)), channels_last_(channels_last) {
        for (const auto& entry : net_->named_parameters()) {
            const bool trained = entry.value().requires_grad();  // a frozen layer stays frozen
            parameter(entry.key(), entry.value()).requires_grad_(trained);
        }
        for (const auto& entry : net_->named_buffers()) {
            buffer(entry.key(), entry.value());
        }
    }

    at::Tensor forward(const at::Tensor& input) override { return net_->forward(input); }
    bool wants_channels_last() const override { return channels_last_; }
    void train(bool training) override {
        Model::train(training);
        net_->train(training);
    }

  private:
    std::shared_ptr<Net> net_;
    bool channels_last_;
};

}  // namespace stoker
