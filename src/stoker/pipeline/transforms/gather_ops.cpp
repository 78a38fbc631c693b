#include "stoker/pipeline/transforms/gather_ops.h"

#include <utility>

#include "stoker/pipeline/transforms/output_ops.h"

namespace stoker {
namespace {

// Whether an op has a place behind those before it. Each call returns why not.
class Places {
  public:
    std::string operator()(const RandomCrop& /*op*/) { return crop(/*resizes=*/false); }
    std::string operator()(const RandomResizedCrop& /*op*/) { return crop(/*resizes=*/true); }
    std::string operator()(const HorizontalFlip& /*op*/) { return flip(); }
    std::string operator()(const Resize& /*op*/) const { return "is a resize after a random op"; }
    std::string operator()(const CenterCrop& /*op*/) const { return "is a center_crop after a random op"; }
    std::string operator()(const Normalize& /*op*/) const { return ""; }
    std::string operator()(const PixelOp& op) {
        return std::holds_alternative<VerticalFlip>(op) ? flip() : output_.pixels(op);
    }

  private:
    std::string crop(bool resizes) {
        if (std::exchange(cropped_, true)) {
            return "is a second crop";
        }
        std::string why = output_.crop();
        return why.empty() && resizes && flipped_ ? "is a random_resized_crop after a flip" : why;
    }
    std::string flip() {
        flipped_ = true;
        return output_.flip();
    }

    bool cropped_ = false;
    bool flipped_ = false;
    OutputPlaces output_;
};

// Sets the plan's parameters, and the size after each op.
struct Plan {
    GatherPlan& plan;

    void operator()(const RandomCrop& op) const {
        plan.to = {op.height, op.width};
        plan.ops.mode = op.mode;
        plan.ops.fill = op.fill;
    }
    void operator()(const RandomResizedCrop& op) const {
        plan.to = {op.height, op.width};
        plan.ops.resizes = true;
    }
    void operator()(const auto& /*op*/) const {}
};

struct Draw {
    GatherDraw& draw;
    ImageSize& size;  // after the ops so far
    Rng rng;

    void operator()(const RandomCrop& op) {
        const int width = size.width;
        draw.box = draw_random_crop(op, size.height, width, rng);
        // The flips before it come after it here, so the box is mirrored. Padding is the same on both sides.
        if (draw.flip_horizontal != 0) {
            draw.box.left = width - draw.box.left - draw.box.width;
        }
        if (draw.flip_vertical != 0) {
            draw.box.top = size.height - draw.box.top - draw.box.height;
        }
        size = {op.height, op.width};
    }
    void operator()(const RandomResizedCrop& op) {
        draw.box = draw_random_resized_crop(op, size.height, size.width, rng);
        size = {op.height, op.width};
    }
    void operator()(const HorizontalFlip& op) { draw.flip_horizontal ^= draw_horizontal_flip(op, rng) ? 1 : 0; }
    void operator()(const PixelOp& op) {
        if (const auto* flip = std::get_if<VerticalFlip>(&op)) {
            draw.flip_vertical ^= draw_vertical_flip(*flip, rng) ? 1 : 0;
        } else {
            draw_output(op, size, rng, draw.output);
        }
    }
    void operator()(const auto& /*op*/) const {}
};

}  // namespace

std::optional<HostOp> find_not_gathered(const OpSlice& slice) {
    Places places;
    for (std::size_t i = slice.begin; i < slice.end; ++i) {
        if (std::string why = std::visit(places, slice.ops[i]); !why.empty()) {
            return HostOp{.op = i, .why = std::move(why)};
        }
    }
    return std::nullopt;
}

GatherPlan gather_plan(const OpSlice& slice, ImageSize image) {
    GatherPlan plan{.ops = {}, .to = image};
    for (std::size_t i = slice.begin; i < slice.end; ++i) {
        std::visit(Plan{plan}, slice.ops[i]);
    }
    const OutputOps output = output_ops(slice);
    plan.ops.colors = output.colors;
    plan.ops.erased_value = output.erased_value;
    return plan;
}

GatherDraw draw_gather(const OpSlice& slice, ImageSize image, RngKey key) {
    GatherDraw draw{.box = {0, 0, image.height, image.width}};
    ImageSize size = image;
    for (std::size_t i = slice.begin; i < slice.end; ++i) {
        key.op = static_cast<std::uint16_t>(i);
        std::visit(Draw{draw, size, Rng(key)}, slice.ops[i]);
    }
    return draw;
}

}  // namespace stoker
