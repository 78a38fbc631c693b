// Each image is scaled separately to fill its cell; the table of `stoker show` lists the real sizes.
#include "cli/commands/image_grid.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cli/commands/small_text.h"
#include "stoker/ops/resize.h"

namespace stoker::cli {
namespace {

constexpr int kMaxCell = 160;  // longest side of a cell
constexpr int kEnlarged = 96;  // small images are enlarged up to this side
constexpr int kGap = 4;        // between cells and around them
constexpr int kTextScale = 2;  // of labels; 1 where a label would be too wide
constexpr int kLabelHeight = kTextScale * kLetterHeight + kGap;
constexpr int kBackground = 0x60;  // grey, so that black and white images stand out

// Repeats every pixel `factor` times in both directions.
void enlarge(ConstImageView from, int factor, ImageView to) {
    for (int y = 0; y < to.height; ++y) {
        for (int x = 0; x < to.width; ++x) {
            std::memcpy(to.row(y) + x * 3, from.row(y / factor) + x / factor * 3, 3);
        }
    }
}

// The pixels from `low` to `high` along a side of the scaled image.
std::pair<int, int> scaled_side(float low, float high, int side, int length) {
    const double scale = static_cast<double>(length) / side;
    const auto at = [&](float x) {
        return static_cast<int>(std::lround(std::clamp(x * scale, 0.0, static_cast<double>(length))));
    };
    return {at(low), std::max(at(high), at(low) + 1)};
}

// Outlines that lie within their box, cut where they leave the image.
void draw_boxes(const std::vector<float>& boxes, ImageSize size, ImageView image) {
    constexpr int kThickness = 2;
    constexpr std::uint8_t kYellow[] = {0xff, 0xe0, 0};
    for (std::size_t i = 0; i + 3 < boxes.size(); i += 4) {
        if (!(boxes[i + 2] > boxes[i] && boxes[i + 3] > boxes[i + 1])) {
            continue;
        }
        const auto [left, right] = scaled_side(boxes[i], boxes[i + 2], size.width, image.width);
        const auto [top, bottom] = scaled_side(boxes[i + 1], boxes[i + 3], size.height, image.height);
        for (int y = top; y < std::min(bottom, image.height); ++y) {
            for (int x = left; x < std::min(right, image.width); ++x) {
                if (std::min({x - left, right - 1 - x, y - top, bottom - 1 - y}) < kThickness) {
                    std::memcpy(image.row(y) + 3 * x, kYellow, 3);
                }
            }
        }
    }
}

void draw_cell(const GridImage& from, ImageView cell, ResizeScratch& scratch) {
    const ConstImageView image = from.image.view();
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
    draw_boxes(from.boxes, {image.height, image.width}, to);
}

// For an image that could not be read: the cell's diagonals on dark red.
void draw_cross(ImageView cell) {
    constexpr int kThickness = 4;
    constexpr std::uint8_t kDarkRed[] = {0x90, 0, 0};
    const int last = cell.height - 1;
    for (int y = 0; y <= last; ++y) {
        for (int x = 0; x <= last; ++x) {
            const bool on_diagonal = std::abs(x - y) < kThickness || std::abs(x + y - last) < kThickness;
            for (int c = 0; c < 3; ++c) {
                cell.row(y)[x * 3 + c] = on_diagonal ? 0xff : kDarkRed[c];
            }
        }
    }
}

// Centred in `place`, as large as it fits.
void draw_label(std::string text, ImageView place) {
    while (text_width(text) > place.width) {
        text.replace(text.size() - 3, 3, "..");
    }
    const int scale = text_width(text) * kTextScale <= place.width ? kTextScale : 1;
    const int height = kLetterHeight * scale;
    const int width = text_width(text) * scale;
    draw_text(text, scale, place.crop({(place.height - height) / 2, (place.width - width) / 2, height, width}));
}

// From the square grid on to 8 columns: the number with the fewest empty cells in the last row, the lowest if several.
int choose_columns(int count) {
    constexpr int kMost = 8;
    const int square = std::max(static_cast<int>(std::ceil(std::sqrt(count))), 1);
    const auto empty_cells = [count](int columns) { return (columns - count % columns) % columns; };
    int best = square;
    for (int columns = square; columns <= kMost; ++columns) {
        best = empty_cells(columns) < empty_cells(best) ? columns : best;
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

ImageGrid make_grid(const std::vector<GridImage>& images) {
    int cell = 1;
    bool labelled = false;
    for (const auto& [image, label, boxes] : images) {
        cell = std::max({cell, image.height(), image.width()});
        labelled = labelled || !label.empty();
    }
    cell = cell > kMaxCell ? kMaxCell : cell * std::max(kEnlarged / cell, 1);
    const int count = static_cast<int>(images.size());
    const int columns = choose_columns(count);
    const int rows = (count + columns - 1) / columns;

    const int cell_height = cell + (labelled ? kLabelHeight : 0);
    ImageGrid grid{Image(rows * (cell_height + kGap) + kGap, columns * (cell + kGap) + kGap, 3), columns};
    std::memset(grid.image.view().data, kBackground, grid.image.bytes());
    ResizeScratch scratch;
    for (int i = 0; i < count; ++i) {
        const GridImage& each = images[static_cast<std::size_t>(i)];
        const int top = kGap + i / columns * (cell_height + kGap);
        const int left = kGap + i % columns * (cell + kGap);
        const ImageView place = grid.image.view().crop({top, left, cell, cell});
        each.image.height() > 0 ? draw_cell(each, place, scratch) : draw_cross(place);
        if (labelled) {
            draw_label(each.label, grid.image.view().crop({top + cell, left, kLabelHeight, cell}));
        }
    }
    return grid;
}

}  // namespace stoker::cli
