#include "stoker/train/step/divided_gradients.h"

#include <algorithm>

namespace stoker {

DividedGradients divided_gradients(const Model& model, const Group& tensor) {
    DividedGradients divided{.sum = [&tensor](const at::Tensor& values) { tensor.all_reduce(values); }};
    std::int64_t place = 0;
    for (const auto& [name, parameter] : model.trainable_parameters()) {
        if (!parameter.grad().defined()) {
            continue;
        }
        if (std::ranges::find(model.divided(), name, &DividedParameter::name) != model.divided().end()) {
            divided.places.push_back(place);
        }
        ++place;
    }
    return divided;
}

void share_overflow(const at::Tensor& found_inf, const SumOverRanks& sum) {
    sum(found_inf);
    found_inf.clamp_max_(1);
}

}  // namespace stoker
