// Options of a fused step: widths of the layers, activation and optimiser, with torch's meaning. The loss is
// torch.nn.CrossEntropyLoss, the mean over the batch.
#pragma once

#include <vector>

namespace stoker {

enum class Activation { relu, gelu, tanh };  // gelu is torch.nn.GELU's default, exact

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
    double label_smoothing = 0;  // in [0, 1)
    FusedOptimizer optimizer = {};
    int threads = 1;  // including the caller's
};

}  // namespace stoker
