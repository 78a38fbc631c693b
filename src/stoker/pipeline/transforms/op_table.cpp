// The table, and the makers of the ops that resize, crop, mirror and normalise; those on pixels are in
// make_pixel_op.cpp. Options are checked here, so that a recipe's mistakes are found before anything runs.
#include "stoker/pipeline/transforms/op_table.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/base/error.h"
#include "stoker/pipeline/transforms/make_pixel_op.h"
#include "stoker/pipeline/transforms/op_options.h"
#include "stoker/recipe/suggest.h"

namespace stoker {
namespace {

Op make_resize(OpOptions& options) {
    const bool exact = options.numbers("size", {}, 1, 2).size() == 2;
    const ImageSize size = options.size();
    return exact ? Resize{0, size} : Resize{size.height, std::nullopt};
}

Op make_center_crop(OpOptions& options) {
    const ImageSize size = options.size();
    return CenterCrop{size.height, size.width};
}

Op make_random_resized_crop(OpOptions& options) {
    const ImageSize size = options.size();
    const auto range = [&](const char* name, double low, double high, double most) {
        const auto list = options.numbers(name, {low, high}, 2, 2);
        if (!(list[0] >= 1e-6 && list[0] <= list[1] && list[1] <= most)) {
            options.refuse(name, fmt::format("[low, high] with 1e-6 <= low <= high <= {}", most));
        }
        return std::pair(static_cast<float>(list[0]), static_cast<float>(list[1]));
    };
    const auto [scale_low, scale_high] = range("scale", 0.08, 1.0, 1.0);
    const auto [ratio_low, ratio_high] = range("ratio", 3.0 / 4.0, 4.0 / 3.0, 1000.0);
    return RandomResizedCrop{size.height, size.width, scale_low, scale_high, ratio_low, ratio_high};
}

Padding read_padding(OpOptions& options) {
    constexpr int kMost = 1 << 15;
    const std::vector<double> list = options.numbers("padding", {0}, 1, 4);
    std::vector<int> sides;
    for (const double side : list) {
        if (!(side >= 0 && side <= kMost && side == std::floor(side))) {
            options.refuse("padding", fmt::format("whole pixels from 0 to {}", kMost));
        }
        sides.push_back(static_cast<int>(side));
    }
    if (sides.size() == 3) {
        options.refuse("padding", "a number, [left and right, top and bottom] or [left, top, right, bottom]");
    }
    const std::size_t count = sides.size();
    return {sides[0], sides[1 % count], sides[2 % count], sides[3 % count]};
}

Op make_random_crop(OpOptions& options) {
    const ImageSize size = options.size();
    constexpr PaddingMode kModes[] = {PaddingMode::constant, PaddingMode::edge, PaddingMode::reflect,
                                      PaddingMode::symmetric};
    return RandomCrop{.height = size.height,
                      .width = size.width,
                      .padding = read_padding(options),
                      .pad_if_needed = options.flag("pad_if_needed", false),
                      .mode = kModes[options.choice("padding_mode", {"constant", "edge", "reflect", "symmetric"})],
                      .fill = options.color("fill")};
}

Op make_horizontal_flip(OpOptions& options) {
    return HorizontalFlip{static_cast<float>(options.number("p", 0.5, 0, 1))};
}

Op make_normalize(OpOptions& options) {
    Normalize op;
    if (options.has("preset")) {
        const std::string preset = options.text("preset");
        if (preset == "imagenet") {
            op = kImageNetNormalize;
        } else if (preset == "mnist") {
            op = kMnistNormalize;
        } else if (preset == "cifar10") {
            op = kCifar10Normalize;
        } else {
            options.refuse("preset", "one of imagenet, mnist, cifar10");
        }
    }
    const auto fill = [&](const char* name, std::array<float, 4>& values, bool positive) {
        const auto list = options.numbers(name, {}, 1, 4);
        for (std::size_t i = 0; i < list.size(); ++i) {
            const float value = static_cast<float>(list[i]);
            if (!std::isfinite(value) || (positive && value <= 0)) {
                options.refuse(name, positive ? "finite numbers above 0" : "finite numbers");
            }
        }
        const int count = static_cast<int>(list.size());
        if (count > 1 && op.channels != 0 && op.channels != count) {
            options.refuse(name, fmt::format("{} numbers, or one for all channels", op.channels));
        }
        op.channels = count > 1 ? count : op.channels;
        for (std::size_t i = 0; i < values.size() && !list.empty(); ++i) {
            values[i] = static_cast<float>(list[std::min(i, list.size() - 1)]);
        }
    };
    fill("mean", op.mean, false);
    fill("std", op.std, true);
    return op;
}

template <PixelOp (*make)(OpOptions&)>
Op on_pixels(OpOptions& options) {
    return make(options);
}

struct Entry {
    const char* name;
    Op (*make)(OpOptions&);
};
constexpr Entry kOps[] = {
    {"random_resized_crop", make_random_resized_crop},
    {"resize", make_resize},
    {"center_crop", make_center_crop},
    {"random_crop", make_random_crop},
    {"horizontal_flip", make_horizontal_flip},
    {"vertical_flip", on_pixels<make_vertical_flip>},
    {"random_rotation", on_pixels<make_random_rotation>},
    {"color_jitter", on_pixels<make_color_jitter>},
    {"random_grayscale", on_pixels<make_random_grayscale>},
    {"trivial_augment_wide", on_pixels<make_trivial_augment_wide>},
    {"random_erasing", on_pixels<make_random_erasing>},
    {"normalize", make_normalize},
};

const Entry& entry_of(const OpSpec& spec) {
    const auto* entry = std::ranges::find(kOps, spec.name, &Entry::name);
    if (entry == std::end(kOps)) {
        const std::vector<std::string> names = op_names();
        const std::string meant = nearest_name(spec.name, names);
        throw InvalidArgument({.where = spec.where,
                               .expected = fmt::format("an op: {}", fmt::join(names, ", ")),
                               .got = fmt::format("\"{}\"", spec.name),
                               .hint = meant.empty() ? "" : fmt::format("did you mean \"{}\"?", meant)});
    }
    return *entry;
}

}  // namespace

std::vector<Op> make_ops(const std::vector<OpSpec>& specs) {
    std::vector<Op> ops;
    for (const auto& spec : specs) {
        try {
            OpOptions options(spec);
            ops.push_back(entry_of(spec).make(options));
            options.finish();
        } catch (const InvalidArgument& error) {
            if (spec.where.starts_with("--set")) {
                throw BadSetting(error.what());
            }
            throw;
        }
    }
    return ops;
}

std::vector<std::string> op_names() {
    std::vector<std::string> names;
    for (const auto& entry : kOps) {
        names.emplace_back(entry.name);
    }
    return names;
}

}  // namespace stoker
