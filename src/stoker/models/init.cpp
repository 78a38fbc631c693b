// Formulas of torch.nn.init.
#include "stoker/models/init.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include <cmath>

namespace stoker {

at::Generator make_generator(std::uint64_t seed) {
    return at::detail::createCPUGenerator(seed);
}

at::Tensor default_uniform(at::IntArrayRef shape, std::int64_t fan_in, at::Generator& generator) {
    const double bound = fan_in > 0 ? 1.0 / std::sqrt(static_cast<double>(fan_in)) : 0.0;
    return at::empty(shape, at::kFloat).uniform_(-bound, bound, generator);
}

at::Tensor xavier_uniform(at::IntArrayRef shape, at::Generator& generator) {
    const double bound = std::sqrt(6.0 / static_cast<double>(shape[0] + shape[1]));
    return at::empty(shape, at::kFloat).uniform_(-bound, bound, generator);
}

at::Tensor normal(at::IntArrayRef shape, double deviation, at::Generator& generator) {
    return at::empty(shape, at::kFloat).normal_(0.0, deviation, generator);
}

at::Tensor kaiming_normal_fan_out(at::IntArrayRef shape, at::Generator& generator) {
    const std::int64_t fan_out = shape[0] * c10::multiply_integers(shape.slice(2));
    return normal(shape, std::sqrt(2.0 / static_cast<double>(fan_out)), generator);
}

}  // namespace stoker
