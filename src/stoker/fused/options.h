// What a fused step computes: the layers' widths, the functions between them, the loss and the optimiser, all with
// torch's meaning. Plain aggregates, so that a recipe can be compared with what fused/ offers.
#pragma once

#include <vector>

namespace stoker {

enum class Activation { relu, gelu, tanh };  // gelu is torch.nn.GELU's default, exact

enum class FusedLoss {
    cross_entropy,  // torch.nn.CrossEntropyLoss, mean over the batch
    mse,            // torch.nn.MSELoss, mean over all outputs of the batch
};

// torch.optim.SGD (dampening 0), Adam and AdamW without amsgrad.
struct FusedOptimizer {
    enum class Kind { sgd, adam, adamw };
    Kind kind = Kind::adam;
    double momentum = 0;    // SGD
    bool nesterov = false;  // SGD
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 0;
};

struct FusedMlpOptions {
    std::vector<int> widths;  // inputs, hidden layers, outputs
    Activation activation = Activation::relu;
    FusedLoss loss = FusedLoss::cross_entropy;
    double label_smoothing = 0;  // cross entropy, [0, 1)
    FusedOptimizer optimizer = {};
    int threads = 1;  // the caller's included
};

}  // namespace stoker
