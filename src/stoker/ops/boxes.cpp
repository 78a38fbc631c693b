// Only the order of float32 operations matters here: it is torchvision's, so that coordinates have the same bits.
#include "stoker/ops/boxes.h"

#include <fmt/format.h>

#include <algorithm>

#include "stoker/base/error.h"

namespace stoker {
namespace {

// Calls `visit(box)` for each box, four floats.
template <typename Visit>
void each_box(std::span<float> boxes, Visit visit) {
    if (boxes.size() % 4 != 0) {
        throw InvalidArgument(
            {.where = "boxes", .expected = "four values for each box", .got = fmt::format("{} values", boxes.size())});
    }
    for (std::size_t i = 0; i < boxes.size(); i += 4) {
        visit(boxes.data() + i);
    }
}

void clip(float* box, ImageSize size) {
    for (int i = 0; i < 4; ++i) {
        box[i] = std::clamp(box[i], 0.0f, static_cast<float>(i % 2 == 0 ? size.width : size.height));
    }
}

void shift_and_clip(std::span<float> boxes, int x, int y, ImageSize size) {
    each_box(boxes, [&](float* box) {
        for (int i = 0; i < 4; ++i) {
            box[i] += static_cast<float>(i % 2 == 0 ? x : y);
        }
        clip(box, size);
    });
}

// Mirrors the coordinates `first` and `first + 2`, which change places.
void flip(std::span<float> boxes, int first, int length) {
    const auto end = static_cast<float>(length);
    each_box(boxes, [&](float* box) {
        const float low = box[first];
        box[first] = -(box[first + 2] - end);
        box[first + 2] = -(low - end);
    });
}

}  // namespace

void crop_boxes(std::span<float> boxes, const Box& crop) {
    shift_and_clip(boxes, -crop.left, -crop.top, {crop.height, crop.width});
}

void random_crop_boxes(std::span<float> boxes, const RandomCrop& op, const Box& window, ImageSize image) {
    const Padding padding = padding_for(op, image.height, image.width);
    ImageSize size = image;
    if (padding.left != 0 || padding.top != 0 || padding.right != 0 || padding.bottom != 0) {
        if (op.mode != PaddingMode::constant) {
            throw InvalidArgument({.where = "random_crop",
                                   .expected = "padding_mode = \"constant\" for data with boxes",
                                   .got = "a mode that repeats pixels"});
        }
        size = {image.height + padding.top + padding.bottom, image.width + padding.left + padding.right};
        shift_and_clip(boxes, padding.left, padding.top, size);
    }
    if (size != ImageSize{window.height, window.width}) {
        crop_boxes(boxes, {window.top + padding.top, window.left + padding.left, window.height, window.width});
    }
}

void resize_boxes(std::span<float> boxes, ImageSize from, ImageSize to) {
    if (from == to) {
        return;
    }
    const auto x = static_cast<float>(static_cast<double>(to.width) / from.width);
    const auto y = static_cast<float>(static_cast<double>(to.height) / from.height);
    each_box(boxes, [&](float* box) {
        for (int i = 0; i < 4; ++i) {
            box[i] *= i % 2 == 0 ? x : y;
        }
    });
}

void horizontal_flip_boxes(std::span<float> boxes, int width) {
    flip(boxes, 0, width);
}

void vertical_flip_boxes(std::span<float> boxes, int height) {
    flip(boxes, 1, height);
}

void affine_boxes(std::span<float> boxes, const AffineParams& move, ImageSize image) {
    AffineParams from_corner = move;  // boxes have their origin in the image's corner
    from_corner.center = {move.center[0] + image.width * 0.5, move.center[1] + image.height * 0.5};
    const AffineMatrix matrix = forward_matrix(from_corner);
    float m[6];
    std::transform(matrix.begin(), matrix.end(), m, [](double value) { return static_cast<float>(value); });
    each_box(boxes, [&](float* box) {
        const float before[4] = {box[0], box[1], box[2], box[3]};
        for (int corner = 0; corner < 4; ++corner) {
            const float x = before[corner % 2 == 0 ? 0 : 2];
            const float y = before[corner < 2 ? 1 : 3];
            const float moved[2] = {x * m[0] + y * m[1] + m[2], x * m[3] + y * m[4] + m[5]};
            for (int i = 0; i < 2; ++i) {
                box[i] = corner == 0 ? moved[i] : std::min(box[i], moved[i]);
                box[i + 2] = corner == 0 ? moved[i] : std::max(box[i + 2], moved[i]);
            }
        }
        clip(box, image);
    });
}

void rotate_boxes(std::span<float> boxes, double degrees, ImageSize image) {
    affine_boxes(boxes, {.angle = -degrees}, image);
}

}  // namespace stoker
