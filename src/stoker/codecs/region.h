// Shared by all decoders: the check of an image's size, the error of a truncated file, the check of the region that a
// sink wants, and RegionRows, which cuts a box out for decoders that produce whole rows from top to bottom.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stoker/base/image.h"

namespace stoker {

// Every codec calls this after reading the header and before allocating memory for pixels. `codec` is used in the
// error. Throws DataError unless 1 <= height * width <= kMaxPixels.
void check_image_size(const std::string& codec, std::int64_t height, std::int64_t width);

// Throws DataError for a file of `size` bytes that is incomplete. `format` is the format's name in the text.
[[noreturn]] void throw_truncated(const char* codec, const char* format, std::size_t size);

// Asks the sink for its region of a (height, width) image. Throws InvalidArgument if it does not lie within.
Region checked_region(RowSink& sink, int height, int width);

// Passes all rows of a decoded image to the sink: start and row, not finish.
void write_image(ConstImageView image, RowSink& sink);

// Cuts a box out of whole rows. For each stored row y of [0, end()): write width * 3 bytes to begin(y), then call
// complete(y). Rows above the box go to scratch memory.
class RegionRows {
  public:
    // Starts the sink. `box` lies within the (height, width) image. The caller keeps `scratch` for the next image.
    RegionRows(RowSink& sink, const Box& box, int height, int width, std::vector<std::uint8_t>& scratch);

    int end() const { return box_.top + box_.height; }  // the first row that is not needed
    bool reaches_bottom() const { return end() == height_; }

    std::uint8_t* begin(int y) { return in_place(y) ? sink_.row(y - box_.top) : scratch_.data(); }
    void complete(int y);

  private:
    bool in_place(int y) const { return y >= box_.top && box_.width == width_; }

    RowSink& sink_;
    std::vector<std::uint8_t>& scratch_;
    Box box_;
    int height_;
    int width_;
};

}  // namespace stoker
