// PyTorch's default initialisations, drawn from a given generator. Models draw weight then bias, layer by layer, so an
// MLP starts from the weights that nn.Linear gets after torch.manual_seed(seed).
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace stoker {

at::Generator make_generator(std::uint64_t seed);

// nn.Linear and nn.Conv2d: U(-1/sqrt(fan_in), 1/sqrt(fan_in)) for both weight and bias
// (kaiming_uniform_ with a = sqrt(5)).
at::Tensor default_uniform(at::IntArrayRef shape, std::int64_t fan_in, at::Generator& generator);

// nn.init.xavier_uniform_ on (out, in).
at::Tensor xavier_uniform(at::IntArrayRef shape, at::Generator& generator);

// Mean 0, standard deviation `deviation`.
at::Tensor normal(at::IntArrayRef shape, double deviation, at::Generator& generator);

// nn.init.kaiming_normal_(mode="fan_out", nonlinearity="relu") on (out, in, kernel...).
at::Tensor kaiming_normal_fan_out(at::IntArrayRef shape, at::Generator& generator);

}  // namespace stoker
