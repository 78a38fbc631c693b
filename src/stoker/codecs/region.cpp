// A wrong size is an error in the file (DataError); a wrong region is an error of the caller (InvalidArgument).
#include "stoker/codecs/region.h"

#include <cstring>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/codecs/codec.h"

namespace stoker {

void check_image_size(const std::string& codec, std::int64_t height, std::int64_t width) {
    if (height > 0 && width > 0 && height <= kMaxPixels / width) {
        return;
    }
    throw DataError({}, {.where = codec,
                         .expected = fmt::format("an image of 1 to {} pixels", kMaxPixels),
                         .got = fmt::format("a header that says {} x {}", width, height)});
}

void throw_truncated(const char* codec, const char* format, std::size_t size) {
    throw DataError({.path = {}, .offset = static_cast<std::int64_t>(size)},
                    {.where = codec,
                     .expected = fmt::format("a complete {}", format),
                     .got = fmt::format("a truncated {} that ends after {} bytes", format, size)});
}

Region checked_region(RowSink& sink, int height, int width) {
    const Region region = sink.region(height, width);
    const Box& box = region.box;
    const bool inside = box.top >= 0 && box.left >= 0 && box.height >= 1 && box.width >= 1 &&
                        box.top <= height - box.height && box.left <= width - box.width;
    const int shrink = region.shrink;
    if (!inside || (shrink != 1 && shrink != 2 && shrink != 4 && shrink != 8)) {
        throw InvalidArgument(
            {.where = "region",
             .expected = fmt::format("a box within {} x {} pixels and a shrink of 1, 2, 4 or 8", width, height),
             .got =
                 fmt::format("{} x {} pixels at ({}, {}) and {}", box.width, box.height, box.left, box.top, shrink)});
    }
    return region;
}

void write_image(ConstImageView image, RowSink& sink) {
    sink.start(image.height, image.width, image.channels);
    for (int y = 0; y < image.height; ++y) {
        std::memcpy(sink.row(y), image.row(y), image.row_bytes());
    }
}

RegionRows::RegionRows(RowSink& sink, const Box& box, int height, int width, std::vector<std::uint8_t>& scratch)
    : sink_(sink), scratch_(scratch), box_(box), height_(height), width_(width) {
    if (box_.top > 0 || box_.width < width) {
        scratch_.resize(std::size_t{3} * static_cast<std::size_t>(width));
    }
    sink.start(box_.height, box_.width, 3);
}

void RegionRows::complete(int y) {
    if (y < box_.top || in_place(y)) {
        return;
    }
    std::memcpy(sink_.row(y - box_.top), scratch_.data() + std::ptrdiff_t{3} * box_.left,
                std::size_t{3} * static_cast<std::size_t>(box_.width));
}

}  // namespace stoker
