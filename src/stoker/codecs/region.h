// The part of an image that a sink wants, for decoders that make whole rows, one after the other: which
// of them to make, where to put each, and how to hand over the wanted columns.
#pragma once

#include <cstdint>
#include <vector>

#include "stoker/base/image.h"

namespace stoker {

// The sink's region of a (height, width) image. Throws InvalidArgument where it does not lie within.
Region wanted_region(RowSink& sink, int height, int width);

// Hands a finished image over: start and rows, not finish.
void deliver(ConstImageView image, RowSink& sink);

// Passes everything on but the question for the region, which a sink is asked but once.
class KnownRegion final : public RowSink {
  public:
    KnownRegion(const Region& region, RowSink& sink) : region_(region), sink_(sink) {}
    Region region(int /*height*/, int /*width*/) override { return region_; }
    void start(int height, int width, int channels) override { sink_.start(height, width, channels); }
    std::uint8_t* row(int y) override { return sink_.row(y); }
    void finish() override { sink_.finish(); }

  private:
    Region region_;
    RowSink& sink_;
};

// Delivers the box at full size, whatever shrink was offered. For each stored row y of [0, end()):
// write width * 3 bytes to begin(y), then call complete(y). Rows above the box land in scratch memory.
class RegionRows {
  public:
    // Asks for the region and starts the sink. `scratch` is kept by the caller from image to image.
    RegionRows(RowSink& sink, int height, int width, std::vector<std::uint8_t>& scratch);

    // The first stored row that is not needed, and whether any is left out.
    int end() const { return box_.top + box_.height; }
    bool reaches_bottom() const { return end() == height_; }

    std::uint8_t* begin(int y) { return in_place(y) ? sink_.row(y - box_.top) : scratch_.data(); }
    void complete(int y);

    const Box& box() const { return box_; }

  private:
    bool in_place(int y) const { return y >= box_.top && box_.width == width_; }

    RowSink& sink_;
    std::vector<std::uint8_t>& scratch_;
    Box box_;
    int height_;
    int width_;
};

}  // namespace stoker
