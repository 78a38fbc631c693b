// autocontrast and equalize build a table of 256 values per channel; adjust_sharpness is a filter.
#include "stoker/ops/photometric.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "stoker/base/error.h"
#include "stoker/ops/color_kernels.h"

namespace stoker {
namespace {

using Table = std::array<std::uint8_t, 256>;

// Calls `visit(values, count)` for every row of bytes.
template <typename Visit>
void each_row(ImageView image, Visit visit) {
    for (int y = 0; y < image.height; ++y) {
        visit(image.row(y), image.row_bytes());
    }
}

void look_up(ImageView image, int channel, const Table& table) {
    const auto step = static_cast<std::size_t>(image.channels);
    each_row(image, [&](std::uint8_t* row, std::size_t bytes) {
        for (auto i = static_cast<std::size_t>(channel); i < bytes; i += step) {
            row[i] = table[row[i]];
        }
    });
}

using Histogram = std::array<std::int64_t, 256>;

Histogram histogram_of(ImageView image, int channel) {
    Histogram histogram{};
    const auto step = static_cast<std::size_t>(image.channels);
    each_row(image, [&](const std::uint8_t* row, std::size_t bytes) {
        for (auto i = static_cast<std::size_t>(channel); i < bytes; i += step) {
            ++histogram[row[i]];
        }
    });
    return histogram;
}

int least_value(const Histogram& histogram) {
    return static_cast<int>(std::find_if(histogram.begin(), histogram.end(), [](auto n) { return n != 0; }) -
                            histogram.begin());
}

int largest_value(const Histogram& histogram) {
    return 255 - static_cast<int>(std::find_if(histogram.rbegin(), histogram.rend(), [](auto n) { return n != 0; }) -
                                  histogram.rbegin());
}

// (the eight neighbours + 5 * the middle) / 13, rounded.
int smoothed(const std::uint8_t* above, const std::uint8_t* here, const std::uint8_t* below, std::size_t left,
             std::size_t middle, std::size_t right) {
    const int sum = above[left] + above[middle] + above[right] + here[left] + 5 * here[middle] + here[right] +
                    below[left] + below[middle] + below[right];
    return (sum + 6) / 13;
}

}  // namespace

void posterize(ImageView image, int bits) {
    check_color_channels("posterize", image);
    require_possible({.kind = Photometric::posterize, .amount = static_cast<float>(bits)});
    const auto mask = static_cast<std::uint8_t>(0xFF00u >> static_cast<unsigned>(bits));
    each_row(image, [&](std::uint8_t* row, std::size_t bytes) {
        for (std::size_t i = 0; i < bytes; ++i) {
            row[i] &= mask;
        }
    });
}

void solarize_add(ImageView image, int amount) {
    check_color_channels("solarize_add", image);
    constexpr int kThreshold = 128;
    if (amount < 0 || amount > 255) {
        throw InvalidArgument({.where = "solarize_add", .expected = "0 to 255", .got = fmt::to_string(amount)});
    }
    each_row(image, [&](std::uint8_t* row, std::size_t bytes) {
        for (std::size_t i = 0; i < bytes; ++i) {
            row[i] = static_cast<std::uint8_t>(row[i] < kThreshold ? std::min(row[i] + amount, 255) : row[i]);
        }
    });
}

void solarize(ImageView image, float threshold) {
    check_color_channels("solarize", image);
    require_possible({.kind = Photometric::solarize, .amount = threshold});
    const auto first =
        static_cast<std::uint8_t>(std::ceil(std::max(threshold, 0.0f)));  // the smallest value that is inverted
    each_row(image, [&](std::uint8_t* row, std::size_t bytes) {
        for (std::size_t i = 0; i < bytes; ++i) {
            row[i] = static_cast<std::uint8_t>(row[i] >= first ? 255 - row[i] : row[i]);
        }
    });
}

void invert(ImageView image) {
    check_color_channels("invert", image);
    each_row(image, [&](std::uint8_t* row, std::size_t bytes) {
        for (std::size_t i = 0; i < bytes; ++i) {
            row[i] = static_cast<std::uint8_t>(~row[i]);
        }
    });
}

void autocontrast(ImageView image) {
    check_color_channels("autocontrast", image);
    for (int c = 0; c < image.channels; ++c) {
        const Histogram histogram = histogram_of(image, c);
        const int least = least_value(histogram);
        const int largest = largest_value(histogram);
        if (least == largest) {
            continue;
        }
        const float scale = static_cast<float>(largest - least) * (1.0f / 255.0f);
        Table table{};
        for (int value = least; value <= largest; ++value) {
            table[static_cast<std::size_t>(value)] =
                static_cast<std::uint8_t>(std::min(static_cast<float>(value - least) / scale, 255.0f));
        }
        look_up(image, c, table);
    }
}

void equalize(ImageView image) {
    check_color_channels("equalize", image);
    for (int c = 0; c < image.channels; ++c) {
        const Histogram histogram = histogram_of(image, c);
        const auto largest = static_cast<std::size_t>(largest_value(histogram));
        const std::int64_t pixels = std::int64_t{image.height} * image.width;
        const std::int64_t step = (pixels - histogram[largest]) / 255;
        if (step == 0) {
            continue;
        }
        Table table{};
        std::int64_t below = 0;
        for (std::size_t value = 0; value < table.size(); ++value) {
            table[value] = static_cast<std::uint8_t>(std::min<std::int64_t>((below + step / 2) / step, 255));
            below += histogram[value];
        }
        look_up(image, c, table);
    }
}

void adjust_sharpness(ImageView image, float factor, Image& rows) {
    check_color_channels("adjust_sharpness", image);
    require_possible({.kind = Photometric::sharpness, .amount = factor});
    if (image.height <= 2 || image.width <= 2) {
        return;
    }
    const std::size_t bytes = image.row_bytes();
    const auto step = static_cast<std::size_t>(image.channels);
    const auto rest = static_cast<float>(1.0 - static_cast<double>(factor));
    rows.reset(2, image.width, image.channels);
    std::uint8_t* above = rows.view().row(0);
    std::uint8_t* here = rows.view().row(1);
    std::copy_n(image.row(0), bytes, above);
    for (int y = 1; y + 1 < image.height; ++y) {
        std::uint8_t* out = image.row(y);
        std::copy_n(out, bytes, here);
        const std::uint8_t* below = image.row(y + 1);
        for (std::size_t i = step; i + step < bytes; ++i) {
            const auto value = static_cast<float>(here[i]);
            const auto difference = static_cast<float>(smoothed(above, here, below, i - step, i, i + step)) - value;
            const auto sharpened = static_cast<int>(value + difference * rest);
            out[i] = static_cast<std::uint8_t>(std::clamp(sharpened, 0, 255));
        }
        std::swap(above, here);
    }
}

void require_possible(const RandomPhotometric& op) {
    const float amount = op.amount;
    if (op.kind == Photometric::posterize && !(amount >= 0 && amount <= 8)) {
        throw InvalidArgument({.where = "posterize", .expected = "0 to 8 bits", .got = fmt::to_string(amount)});
    }
    if (op.kind == Photometric::solarize && !(amount <= 255.0f)) {
        throw InvalidArgument(
            {.where = "solarize", .expected = "a threshold of at most 255", .got = fmt::to_string(amount)});
    }
    if (op.kind == Photometric::sharpness && !(amount >= 0 && amount <= 1000)) {
        throw InvalidArgument(
            {.where = "adjust_sharpness", .expected = "a factor from 0 to 1000", .got = fmt::to_string(amount)});
    }
}

bool draw_random_photometric(const RandomPhotometric& op, Rng& rng) {
    return rng.chance(op.probability);
}

void photometric(ImageView image, const RandomPhotometric& op, Image& rows) {
    switch (op.kind) {
        case Photometric::posterize:
            return posterize(image, static_cast<int>(op.amount));
        case Photometric::solarize:
            return solarize(image, op.amount);
        case Photometric::invert:
            return invert(image);
        case Photometric::autocontrast:
            return autocontrast(image);
        case Photometric::equalize:
            return equalize(image);
        case Photometric::sharpness:
            return adjust_sharpness(image, op.amount, rows);
    }
}

}  // namespace stoker
