// A part of a model that is a sequence of such parts, for pipeline parallelism: the output of each block is the input
// of the next.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace stoker {

struct ModelBlock {
    std::string name;
    std::vector<std::string> tensors = {};  // patterns (name_pattern.h) of its parameters and buffers
    std::function<at::Tensor(const at::Tensor&)> forward = nullptr;  // refers to the model

    bool has(const std::string& tensor) const;
};

}  // namespace stoker
