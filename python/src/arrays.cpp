// nanobind's ndarray carries address, shape, strides and element type.
#include "python/src/arrays.h"

#include <nanobind/ndarray.h>

#include <memory>
#include <vector>

namespace stoker::python {

namespace nb = nanobind;

namespace {

nb::dlpack::dtype dlpack_type(DType dtype) {
    const auto of = [&](nb::dlpack::dtype_code code) {
        return nb::dlpack::dtype{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * item_size(dtype)), 1};
    };
    switch (dtype) {
        case DType::uint8:
        case DType::uint16:
            return of(nb::dlpack::dtype_code::UInt);
        case DType::int16:
        case DType::int32:
        case DType::int64:
            return of(nb::dlpack::dtype_code::Int);
        case DType::bfloat16:
            return of(nb::dlpack::dtype_code::Bfloat);
        case DType::float16:
        case DType::float32:
        case DType::float64:
            break;
    }
    return of(nb::dlpack::dtype_code::Float);
}

}  // namespace

nb::object as_array(const TensorView& view, nb::handle owner, FieldLayout layout) {
    const std::vector<std::size_t> shape(view.shape.begin(), view.shape.end());
    std::vector<std::int64_t> strides(shape.size(), 1);
    for (std::size_t i = shape.size(); i-- > 1;) {
        strides[i - 1] = strides[i] * view.shape[i];
    }
    if (layout == FieldLayout::channels_last) {
        strides = channels_last_steps(view.shape);
    }
    return nb::cast(nb::ndarray<nb::array_api>(view.data, shape.size(), shape.data(), owner, strides.data(),
                                               dlpack_type(view.dtype)),
                    nb::rv_policy::reference);
}

nb::object as_array(Buffer memory, DType dtype, const Shape& shape) {
    auto owned = std::make_unique<Buffer>(std::move(memory));
    std::byte* data = owned->data();
    const nb::capsule owner(owned.get(), [](void* buffer) noexcept { delete static_cast<Buffer*>(buffer); });
    owned.release();  // NOLINT(bugprone-unused-return-value): the capsule owns it
    return as_array(TensorView{data, dtype, shape}, owner);
}

}  // namespace stoker::python
