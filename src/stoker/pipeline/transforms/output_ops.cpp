// A flip may follow a change of colours: it moves pixels without changing their sum. A crop may not, as the contrast's
// mean is that of all pixels.
#include "stoker/pipeline/transforms/output_ops.h"

#include <utility>

namespace stoker {

std::string OutputPlaces::pixels(const PixelOp& op) {
    const auto once = [&](bool& before, const char* name) -> std::string {
        if (std::exchange(before, true)) {
            return std::string("is a second ") + name;
        }
        return "";
    };
    if (std::holds_alternative<RandomErasing>(op)) {
        return once(erased_, "random_erasing");
    }
    const bool jitters = std::holds_alternative<ColorJitter>(op);
    if (!jitters && !std::holds_alternative<RandomGrayscale>(op)) {
        return "changes pixels in a way that is done on the CPU";
    }
    if (erased_) {
        return "changes colours after random_erasing";
    }
    return jitters ? once(jittered_, "color_jitter") : once(grayed_, "random_grayscale");
}

std::string OutputPlaces::crop() const {
    return erased_                ? "is a crop after random_erasing"
           : jittered_ || grayed_ ? "is a crop after a change of colours"
                                  : "";
}

std::string OutputPlaces::flip() const {
    return erased_ ? "is a flip after random_erasing" : "";
}

OutputOps output_ops(const OpSlice& slice) {
    OutputOps ops;
    for (std::size_t i = slice.begin; i < slice.end; ++i) {
        const auto* const pixels = std::get_if<PixelOp>(&slice.ops[i]);
        if (pixels == nullptr) {
            continue;
        }
        ops.colors |= std::holds_alternative<ColorJitter>(*pixels) || std::holds_alternative<RandomGrayscale>(*pixels);
        if (const auto* const erasing = std::get_if<RandomErasing>(pixels)) {
            ops.erased_value = erasing->value;
        }
    }
    return ops;
}

bool draw_output(const PixelOp& op, ImageSize size, Rng& rng, OutputDraw& draw) {
    if (const auto* const jitter = std::get_if<ColorJitter>(&op)) {
        draw.add(draw_color_jitter(*jitter, rng));
    } else if (const auto* const grayscale = std::get_if<RandomGrayscale>(&op)) {
        if (draw_random_grayscale(*grayscale, rng)) {
            draw.add(ColorStep::gray);
        }
    } else if (const auto* const erasing = std::get_if<RandomErasing>(&op)) {
        const ErasingParams params = draw_random_erasing(*erasing, size.height, size.width, rng);
        draw.erased = params.box;
        draw.noise = params.noise;
    } else {
        return false;
    }
    return true;
}

}  // namespace stoker
