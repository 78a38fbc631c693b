#include "stoker/train/run/divided_model.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/train/run/model_stages.h"

namespace stoker {

namespace {

// The smallest number of threads that a rank of `group` has, on all of them.
void use_same_threads(const Group& group) {
    const at::Tensor threads = group.all_gather(at::full({}, at::get_num_threads(), at::kLong));
    at::set_num_threads(static_cast<int>(threads.min().item<std::int64_t>()));
}

}  // namespace

void divide_model(Model& model, const Group& world, const Mesh& mesh) {
    if (!mesh.divides_model()) {
        return;
    }
    std::vector<at::Tensor> state;
    std::ranges::transform(model.state(), std::back_inserter(state), &NamedTensor::tensor);
    world.broadcast(state);
    if (mesh.tensor->alone()) {
        return;
    }
    const std::shared_ptr<Group> group = mesh.tensor;
    use_same_threads(*group);
    model.divide({.rank = group->rank(), .size = group->size(), .sum = [group](const at::Tensor& values) {
                      group->all_reduce(values);
                  }});
}

const DividedParameter* slice_in(const Model& model, const NamedTensor& entry) {
    const auto found = std::ranges::find_if(model.divided(), [&](const DividedParameter& parameter) {
        return entry.name == parameter.name || entry.name.ends_with("." + parameter.name);
    });
    return found == model.divided().end() || entry.tensor.dim() == 0 ? nullptr : &*found;  // a step count is whole
}

void keep_part(std::vector<NamedTensor>& state, const Model& model, const Group& tensor) {
    if (model.is_stage()) {
        keep_stage(state, model);
    }
    for (NamedTensor& entry : state) {
        const DividedParameter* parameter = slice_in(model, entry);
        if (parameter == nullptr) {
            continue;
        }
        const at::Tensor& own = std::ranges::find(model.parameters(), parameter->name, &NamedTensor::name)->tensor;
        std::vector<std::int64_t> whole = own.sizes().vec();
        whole[static_cast<std::size_t>(parameter->dim)] *= tensor.size();
        if (entry.tensor.sizes() != whole) {
            throw InvalidArgument({.where = entry.name,
                                   .expected = fmt::format("[{}]", fmt::join(whole, ", ")),
                                   .got = fmt::format("[{}]", fmt::join(entry.tensor.sizes(), ", ")),
                                   .hint = "the checkpoint is of another model"});
        }
        entry.tensor = slice_of(entry.tensor, *parameter, tensor.rank(), tensor.size());
    }
}

std::vector<NamedTensor> PartOfModel::gather_slices(std::vector<NamedTensor> state) const {
    if (!mesh_.divides_model() || !mesh_.data->first()) {
        return state;
    }
    const c10::NoGradGuard no_grad;
    for (NamedTensor& entry : state) {
        if (const DividedParameter* parameter = slice_in(model_, entry)) {
            entry.tensor = whole(entry.tensor, *parameter);
        }
    }
    const bool gathers = mesh_.tensor->first() && !mesh_.pipeline->alone();
    return gathers ? gather_stages(std::move(state), model_, *mesh_.pipeline) : state;
}

StateParts PartOfModel::parts(const std::vector<NamedTensor>& tensors, bool first) const {
    if (full_ != nullptr) {
        return full_->parts(tensors);
    }
    StateParts parts;
    for (const NamedTensor& entry : tensors) {
        parts.add_whole(entry, first);
    }
    return parts;
}

std::vector<NamedTensor> PartOfModel::divide(std::vector<NamedTensor> saved, const std::string& where) const {
    return full_ != nullptr && !saved.empty() ? full_->divide(saved, where) : std::move(saved);
}

void PartOfModel::load(const std::vector<NamedTensor>& saved, const std::string& where) const {
    if (full_ != nullptr) {
        full_->load(saved, where);
    } else {
        model_.load(saved, where);
    }
}

at::Tensor PartOfModel::whole(const at::Tensor& slice, const DividedParameter& parameter) const {
    const Group& group = *mesh_.tensor;
    const at::Tensor own = slice.detach().to(at::kCPU).contiguous();
    if (!group.first()) {
        group.send(own, group.rank(), /*to=*/0);
        return slice;
    }
    std::vector<at::Tensor> slices = {own};
    for (int rank = 1; rank < group.size(); ++rank) {
        slices.push_back(at::empty_like(own));
        group.send(slices.back(), rank, /*to=*/0);
    }
    return join_slices(slices, parameter);
}

}  // namespace stoker
