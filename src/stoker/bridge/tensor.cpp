// at::from_blob, with the batch in the deleter and the layout in the strides.
#include "stoker/bridge/tensor.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "stoker/base/error.h"

namespace stoker {
namespace {

struct TypePair {
    DType dtype;
    at::ScalarType scalar;
};
constexpr TypePair kTypes[] = {
    {DType::uint8, at::kByte},        {DType::uint16, at::kUInt16}, {DType::int16, at::kShort},
    {DType::int32, at::kInt},         {DType::int64, at::kLong},    {DType::float16, at::kHalf},
    {DType::bfloat16, at::kBFloat16}, {DType::float32, at::kFloat}, {DType::float64, at::kDouble}};

}  // namespace

at::ScalarType scalar_type(DType dtype) {
    return std::ranges::find(kTypes, dtype, &TypePair::dtype)->scalar;
}

DType dtype_of_scalar(at::ScalarType type) {
    const auto* found = std::ranges::find(kTypes, type, &TypePair::scalar);
    if (found == std::end(kTypes)) {
        throw Unsupported({.where = "tensor", .expected = "a type that Stoker stores", .got = c10::toString(type)});
    }
    return found->dtype;
}

at::Tensor as_tensor(const std::shared_ptr<Batch>& batch, std::string_view field) {
    const TensorView view = batch->field(field);
    const auto options = at::TensorOptions().dtype(scalar_type(view.dtype));
    const auto release = [batch](void*) {};  // destroyed with the tensor's storage, and the batch with it
    const auto spec = std::ranges::find(batch->fields(), field, &FieldSpec::name);
    if (spec->layout == FieldLayout::channels_last) {
        return at::from_blob(view.data, view.shape, channels_last_steps(view.shape), release, options);
    }
    return at::from_blob(view.data, view.shape, release, options);
}

TensorView view_of(const at::Tensor& tensor) {
    if (!tensor.is_contiguous() || !tensor.device().is_cpu()) {
        throw InvalidArgument({.where = "view_of",
                               .expected = "a contiguous tensor in host memory",
                               .got = tensor.device().is_cpu() ? "a strided one" : tensor.device().str()});
    }
    return {static_cast<std::byte*>(tensor.data_ptr()), dtype_of_scalar(tensor.scalar_type()), tensor.sizes().vec()};
}

at::Tensor copy_of(const TensorView& view) {
    at::Tensor tensor = at::empty(view.shape, at::TensorOptions().dtype(scalar_type(view.dtype)));
    if (view.bytes() > 0) {
        std::memcpy(tensor.data_ptr(), view.data, view.bytes());
    }
    return tensor;
}

at::Tensor as_tensor(const TensorView& view, const std::shared_ptr<const void>& owner) {
    const auto options = at::TensorOptions().dtype(scalar_type(view.dtype));
    const bool aligned = reinterpret_cast<std::uintptr_t>(view.data) % options.dtype().itemsize() == 0;
    return aligned && view.bytes() > 0 ? at::from_blob(
                                             view.data, view.shape, [owner](void*) {}, options)
                                       : copy_of(view);
}

}  // namespace stoker
