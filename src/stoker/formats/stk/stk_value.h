// The values of one sample's fields, as the writer takes and the reader gives them. All are views.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "stoker/base/tensor_view.h"
#include "stoker/formats/stk/stk_schema.h"

namespace stoker {

struct StkImage {
    std::span<const std::byte> bytes;
    StkCodec codec = StkCodec::raw;
    int height = 0;  // of raw pixels (height, width, channels); 0 for an encoded image
    int width = 0;
    int channels = 0;            // 1 to 4
    bool original_file = false;  // the file that was packed can be had again from these bytes, byte for byte
};

using StkBytes = std::span<const std::byte>;

// By kind: image, label and integer, number, bytes, tensor.
using StkValue = std::variant<StkImage, std::int64_t, double, StkBytes, TensorView>;

}  // namespace stoker
