// The buffer's memory is freed under its views: the storage object stays, so what autograd has saved, parameters and
// views of them, sees the memory that the next gather allocates.
#include "stoker/dist/flat_parameters.h"

#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "stoker/base/error.h"

namespace stoker {
namespace {

std::int64_t rounded_up(std::int64_t elements, std::int64_t multiple) {
    return (elements + multiple - 1) / multiple * multiple;
}

void require_dense(const at::Tensor& parameter) {
    if (!parameter.is_non_overlapping_and_dense()) {
        throw InvalidArgument({.where = "train.shard",
                               .expected = "parameters without gaps in memory",
                               .got = fmt::format("strides [{}] of [{}]", fmt::join(parameter.strides(), ", "),
                                                  fmt::join(parameter.sizes(), ", ")),
                               .hint = "set train.shard = \"none\""});
    }
}

// Tensors with the shapes and strides of `like`, whose memory LibTorch refuses to read: a kernel that reads freed
// memory would crash instead.
std::vector<at::Tensor> without_memory(const std::vector<at::Tensor>& like) {
    std::vector<at::Tensor> absent;
    for (const at::Tensor& tensor : like) {
        const at::Tensor none = at::empty({0}, tensor.options().requires_grad(false));
        c10::StorageImpl* const storage = none.storage().unsafeGetStorageImpl();
        storage->set_nbytes(tensor.nbytes());  // as a view of that size must have
        absent.push_back(none.as_strided(tensor.sizes(), tensor.strides(), 0));
        storage->set_nbytes(0);
        storage->release_data_and_set_meta_custom_data_ptr_error_msg_(
            "parameters that are divided among the processes (train.shard = \"full\") have values only while their "
            "block computes; Trainer::gather_model() brings them together");
    }
    return absent;
}

}  // namespace

std::int64_t flat_elements(std::span<const std::int64_t> sizes, int ranks) {
    std::int64_t all = 0;
    for (const std::int64_t size : sizes) {
        all += rounded_up(size, kPieceAlignment);
    }
    return rounded_up(all, ranks * kPieceAlignment);
}

FlatParameters::FlatParameters(const Group& group, const std::vector<at::Tensor>& parameters)
    : group_(group), parameters_(parameters) {
    const c10::NoGradGuard no_grad;
    std::vector<std::int64_t> sizes;
    std::int64_t begin = 0;
    for (const at::Tensor& parameter : parameters_) {
        require_dense(parameter);
        sizes.push_back(parameter.numel());
        begins_.push_back(begin);
        begin += rounded_up(parameter.numel(), kPieceAlignment);
    }
    const std::int64_t shard = flat_elements(sizes, group.size()) / group.size();
    flat_ = at::zeros({shard * group.size()}, parameters_.at(0).options().requires_grad(false));
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        whole_.push_back(view_of(flat_, i));
        whole_.back().copy_(parameters_[i]);
    }
    absent_ = without_memory(parameters_);
    for (std::int64_t rank = 0; rank < group.size(); ++rank) {
        std::vector<ParameterPiece>& own = pieces_.emplace_back();
        for (std::size_t i = 0; i < parameters_.size(); ++i) {
            const std::int64_t from = std::max(rank * shard - begins_[i], std::int64_t{0});
            const std::int64_t to = std::min((rank + 1) * shard - begins_[i], sizes[i]);
            if (from < to) {
                own.push_back({.parameter = i, .begin = from, .end = to});
            }
        }
    }
    shard_ = flat_.narrow(0, group.rank() * shard, shard).clone();
    own_ = own_pieces(shard_);
    reshard();
}

at::Tensor FlatParameters::view_of(const at::Tensor& flat, std::size_t parameter) const {
    return flat.as_strided(parameters_[parameter].sizes(), parameters_[parameter].strides(), begins_[parameter]);
}

std::vector<at::Tensor> FlatParameters::own_pieces(const at::Tensor& shard) const {
    const auto rank = static_cast<std::size_t>(group_.rank());
    std::vector<at::Tensor> views;
    for (const ParameterPiece& piece : pieces_[rank]) {
        const std::int64_t begin = begins_[piece.parameter] + piece.begin - group_.rank() * shard_.numel();
        views.push_back(shard.detach().narrow(0, begin, piece.end - piece.begin));
    }
    return views;
}

void FlatParameters::set_memory(bool whole) {
    c10::StorageImpl* const storage = flat_.storage().unsafeGetStorageImpl();
    const std::size_t bytes = whole ? flat_.nbytes() : 0;
    storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
    storage->set_nbytes(bytes);
}

// The tensor objects stay the same, so the model and autograd know them.
void FlatParameters::show(const std::vector<at::Tensor>& data) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        parameters_[i].set_data(data[i]);
    }
}

void FlatParameters::start_unshard() {
    if (unsharded_ || gathering_) {
        return;
    }
    const c10::NoGradGuard no_grad;
    set_memory(/*whole=*/true);
    gathering_ = group_.start_all_gather(flat_, shard_.detach());  // its threads may read it while EMA swaps the shard
}

void FlatParameters::unshard() {
    start_unshard();
    if (gathering_) {
        std::exchange(gathering_, nullptr)();
        show(whole_);
        unsharded_ = true;
    }
}

void FlatParameters::reshard() {
    if (gathering_) {  // into the memory that is freed here
        std::exchange(gathering_, nullptr)();
    }
    show(absent_);
    set_memory(/*whole=*/false);
    unsharded_ = false;
}

// A gradient is divided before it is added to others, like in c10d's reducer, and freed as soon as it is packed.
void FlatParameters::start_reduce(bool zeros, std::optional<at::ScalarType> type) {
    const c10::NoGradGuard no_grad;
    const at::TensorOptions options = flat_.options().dtype(type.value_or(flat_.scalar_type()));
    const at::Tensor packed = zeros ? at::zeros(flat_.sizes(), options) : at::empty(flat_.sizes(), options);
    std::int64_t end = 0;
    for (std::size_t i = 0; i < parameters_.size() && !zeros; ++i) {
        packed.narrow(0, end, begins_[i] - end).zero_();
        end = begins_[i] + parameters_[i].numel();
        at::Tensor& gradient = parameters_[i].mutable_grad();
        at::Tensor view = view_of(packed, i);
        at::div_out(view, gradient, at::scalar_tensor(group_.size(), gradient.options()));
        gradient.reset();
    }
    if (!zeros) {
        packed.narrow(0, end, packed.numel() - end).zero_();
    }
    reduced_ = at::empty(shard_.sizes(), options);
    reducing_ = group_.start_reduce_scatter(reduced_, packed);
}

void FlatParameters::finish_reduce() {
    if (!reducing_) {
        return;
    }
    const c10::NoGradGuard no_grad;
    std::exchange(reducing_, nullptr)();
    const at::Tensor sum = std::exchange(reduced_, at::Tensor()).to(shard_.scalar_type());
    if (gradient_.defined()) {
        gradient_.add_(sum);  // of an earlier micro-batch
        return;
    }
    gradient_ = sum;
    const std::vector<at::Tensor> gradients = own_pieces(gradient_);
    for (std::size_t i = 0; i < own_.size(); ++i) {
        own_[i].mutable_grad() = gradients[i];
    }
}

void FlatParameters::zero_grad() {
    gradient_.reset();
    for (at::Tensor& piece : own_) {
        piece.mutable_grad().reset();
    }
}

void FlatParameters::abandon() noexcept {
    for (std::function<void()>* const under_way : {&gathering_, &reducing_}) {
        try {
            if (*under_way) {
                std::exchange(*under_way, nullptr)();
            }
        } catch (const std::exception&) {
            // The error before it ends the run.
        }
    }
    try {
        reduced_.reset();
        reshard();
        zero_grad();
        for (at::Tensor& parameter : parameters_) {
            parameter.mutable_grad().reset();
        }
    } catch (const std::exception&) {  // a device that is lost frees nothing
    }
}

}  // namespace stoker
