// A non-owning view of a dense, row-major tensor: address, element type and shape. The pipeline, the bridge to LibTorch
// and the file writers exchange tensors in this form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "stoker/base/dtype.h"

namespace stoker {

using Shape = std::vector<std::int64_t>;

// The channels of an image (C, H, W) or a clip (T, C, H, W); 0 for other shapes.
inline std::int64_t channels_in(const Shape& image) {
    return image.size() == 3 || image.size() == 4 ? image[image.size() - 3] : 0;
}

inline std::int64_t element_count(const Shape& shape) {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

struct TensorView {
    std::byte* data = nullptr;  // of other memory, which must outlive the view
    DType dtype = DType::uint8;
    Shape shape;

    std::int64_t elements() const { return element_count(shape); }
    std::size_t bytes() const { return static_cast<std::size_t>(elements()) * item_size(dtype); }

    // The elements as T. Throws InvalidArgument if the view has another type.
    template <typename T>
    std::span<T> as() const {
        if (dtype_of<T>::value != dtype) {
            throw InvalidArgument({.where = "TensorView::as",
                                   .expected = std::string(dtype_name(dtype_of<T>::value)),
                                   .got = std::string(dtype_name(dtype))});
        }
        return {reinterpret_cast<T*>(data), static_cast<std::size_t>(elements())};
    }
};

}  // namespace stoker
