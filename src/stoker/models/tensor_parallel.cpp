// f and g are each other's transpose: one sums in the forward pass, the other in the backward pass.
#include "stoker/models/tensor_parallel.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "stoker/base/error.h"

namespace stoker {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kRanks = "ranks";

struct SharedRanks : torch::CustomClassHolder {
    explicit SharedRanks(TensorRanks of) : ranks(std::move(of)) {}
    TensorRanks ranks;
};

at::Tensor summed(const at::Tensor& x, const TensorRanks& ranks) {
    const at::Tensor sum = x.detach().clone(at::MemoryFormat::Contiguous);
    ranks.sum(sum);
    return sum;
}

void require_first_gradients() {
    if (c10::GradMode::is_enabled()) {  // the gradients would have no history
        throw Unsupported({.where = "train.mesh.tp", .expected = "first gradients", .got = "create_graph"});
    }
}

struct ToAllRanks : torch::autograd::Function<ToAllRanks> {
    static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                              const c10::intrusive_ptr<SharedRanks>& shared) {
        context->saved_data[kRanks] = c10::IValue::make_capsule(shared);
        return x.view_as(x);
    }
    static variable_list backward(AutogradContext* context, const variable_list& gradients) {
        require_first_gradients();
        const auto shared = c10::static_intrusive_pointer_cast<SharedRanks>(context->saved_data[kRanks].toCapsule());
        return {summed(gradients[0], shared->ranks), at::Tensor()};
    }
};

struct SumOfRanks : torch::autograd::Function<SumOfRanks> {
    static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& x,
                              const c10::intrusive_ptr<SharedRanks>& shared) {
        return summed(x, shared->ranks);
    }
    static variable_list backward(AutogradContext* /*context*/, const variable_list& gradients) {
        return {gradients[0], at::Tensor()};
    }
};

}  // namespace

at::Tensor slice_of(const at::Tensor& whole, const DividedParameter& parameter, int rank, int size) {
    std::vector<at::Tensor> parts;
    for (const at::Tensor& block : whole.chunk(parameter.blocks, parameter.dim)) {
        const std::int64_t length = block.size(parameter.dim) / size;
        parts.push_back(block.narrow(parameter.dim, rank * length, length));
    }
    return at::cat(parts, parameter.dim);
}

at::Tensor join_slices(const std::vector<at::Tensor>& slices, const DividedParameter& parameter) {
    std::vector<at::Tensor> parts;
    for (std::int64_t block = 0; block < parameter.blocks; ++block) {
        for (const at::Tensor& slice : slices) {
            const std::int64_t length = slice.size(parameter.dim) / parameter.blocks;
            parts.push_back(slice.narrow(parameter.dim, block * length, length));
        }
    }
    return at::cat(parts, parameter.dim);
}

at::Tensor to_all_ranks(const at::Tensor& x, const TensorRanks& ranks) {
    const bool needs_gradient = c10::GradMode::is_enabled() && x.requires_grad();
    return needs_gradient ? ToAllRanks::apply(x, c10::make_intrusive<SharedRanks>(ranks)) : x;
}

at::Tensor sum_of_ranks(const at::Tensor& x, const TensorRanks& ranks) {
    return c10::GradMode::is_enabled() ? SumOfRanks::apply(x, c10::make_intrusive<SharedRanks>(ranks))
                                       : summed(x, ranks);
}

at::Tensor row_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const TensorRanks* ranks) {
    if (ranks == nullptr) {
        return at::linear(x, weight, bias);
    }
    const at::Tensor y = sum_of_ranks(at::linear(x, weight), *ranks);
    return y.add(bias.to(y.scalar_type()));  // autocast computes y in a smaller type
}

}  // namespace stoker
