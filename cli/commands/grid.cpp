// Each image is scaled on its own to fill its cell; how large it is, the table beside the grid says.
#include "cli/commands/grid.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "stoker/ops/resize.h"

namespace stoker::cli {
namespace {

constexpr int kCell = 160;     // the longest side of an image in the grid
constexpr int kSmall = 96;     // what small images grow up to
constexpr int kGap = 4;        // between cells, and around them
constexpr int kGround = 0x60;  // grey that neither black nor white pictures melt into

// Every pixel `factor` times in both directions.
void enlarge(ConstImageView from, int factor, ImageView to) {
    for (int y = 0; y < to.height; ++y) {
        for (int x = 0; x < to.width; ++x) {
            std::memcpy(to.row(y) + x * 3, from.row(y / factor) + x / factor * 3, 3);
        }
    }
}

void draw_cell(ConstImageView image, ImageView cell, ResizeScratch& scratch) {
    const int longest = std::max(image.height, image.width);
    const int factor = cell.height / longest;
    const auto scaled = [&](int side) {
        return factor > 0
                   ? side * factor
                   : std::max(static_cast<int>(std::lround(static_cast<double>(side) * cell.height / longest)), 1);
    };
    const int height = scaled(image.height);
    const int width = scaled(image.width);
    const ImageView to = cell.crop({(cell.height - height) / 2, (cell.width - width) / 2, height, width});
    if (factor > 0) {
        enlarge(image, factor, to);
    } else {
        resize(image, to, scratch);
    }
}

// As square as can be without a hole in the last row, or with the smallest.
int fitting_columns(int count) {
    constexpr int kMost = 8;
    const int square = std::max(static_cast<int>(std::ceil(std::sqrt(count))), 1);
    const auto holes = [count](int columns) { return (columns - count % columns) % columns; };
    int best = square;
    for (int columns = square; columns <= kMost; ++columns) {
        best = holes(columns) < holes(best) ? columns : best;
    }
    return best;
}

}  // namespace

void to_rgb(ConstImageView image, Image& rgb) {
    rgb.reset(image.height, image.width, 3);
    const bool colour = image.channels >= 3;
    for (int y = 0; y < image.height; ++y) {
        const std::uint8_t* from = image.row(y);
        std::uint8_t* to = rgb.view().row(y);
        for (int x = 0; x < image.width; ++x, from += image.channels, to += 3) {
            to[0] = from[0];
            to[1] = from[colour ? 1 : 0];
            to[2] = from[colour ? 2 : 0];
        }
    }
}

Grid draw_grid(const std::vector<Image>& images) {
    int cell = 1;
    for (const Image& image : images) {
        cell = std::max({cell, image.height(), image.width()});
    }
    cell = cell > kCell ? kCell : cell * std::max(kSmall / cell, 1);
    const int count = static_cast<int>(images.size());
    const int columns = fitting_columns(count);
    const int rows = (count + columns - 1) / columns;

    Grid grid{Image(rows * (cell + kGap) + kGap, columns * (cell + kGap) + kGap, 3), columns};
    std::memset(grid.image.view().data, kGround, grid.image.bytes());
    ResizeScratch scratch;
    for (int i = 0; i < count; ++i) {
        const Box place{kGap + i / columns * (cell + kGap), kGap + i % columns * (cell + kGap), cell, cell};
        draw_cell(images[static_cast<std::size_t>(i)].view(), grid.image.view().crop(place), scratch);
    }
    return grid;
}

}  // namespace stoker::cli
