// Differences of a step when ranks have parts of one model: a norm and an overflow are those of the whole.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "stoker/dist/group.h"
#include "stoker/models/model.h"

namespace stoker {

struct DividedGradients {
    // The gradients of divided parameters, by their place in a list.
    std::vector<std::int64_t> places = {};
    SumOverRanks sum = nullptr;        // over the ranks with slices
    SumOverRanks sum_parts = nullptr;  // over stages, or ranks with shards, which have other parameters; null: one part
};

// For the trained parameters with a gradient, in the model's order (Optimizer::gradients). `tensor`, the ranks that
// share the model, must outlive the result.
DividedGradients divided_gradients(const Model& model, const Group& tensor);

// Sets `found_inf` (Scaler::unscale) to 1 where any rank's is: a part of the model may overflow on one rank alone, and
// all must skip the step and lower the scale.
void share_overflow(const at::Tensor& found_inf, const SumOverRanks& sum);

// Throws InvalidArgument naming those without a gradient, on which the loss does not depend: one process would leave
// them unchanged, several would wait for their gradients.
[[noreturn]] void refuse_missing_gradients(const std::vector<NamedTensor>& parameters);

}  // namespace stoker
