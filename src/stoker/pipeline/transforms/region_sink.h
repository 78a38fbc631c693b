// The sink that a transform decodes into: it receives the image's size, folds the ops, and requests from the decoder
// only the region that they read.
#pragma once

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/image.h"
#include "stoker/ops/resize_stream.h"
#include "stoker/pipeline/transforms/geometry.h"

namespace stoker {

// How to decode an image that is resized to a smaller size.
enum class DecodeMode {
    exact,  // the same pixels as decoding all of it and then resizing
    fast,   // at 1/2, 1/4 or 1/8 of its size if the decoder supports that: slightly different pixels
};

// `Fold` returns the Geometry for an ImageSize. `Begin` begins `stream` for a Geometry, the window and the channels of
// the decoder's rows, and returns false if they are to be stored.
template <typename Fold, typename Begin>
class RegionSink final : public RowSink {
  public:
    RegionSink(Fold fold, DecodeMode mode, Image& decoded, Begin begin, ResizeStream& stream)
        : fold_(std::move(fold)), mode_(mode), decoded_(decoded), begin_(std::move(begin)), stream_(stream) {}

    Region region(int height, int width) override {
        image_ = {height, width};
        requested_ = geometry_ = fold_(image_);
        region_ = {.box = geometry_.reads()};
        if (mode_ == DecodeMode::fast) {
            request_shrunk();
        }
        return region_;
    }

    // A decoder delivers the region, the region at 1/shrink, or the whole image.
    void start(int height, int width, int channels) override {
        if (image_ == ImageSize{}) {
            region(height, width);
        }
        geometry_ = requested_;
        const ImageSize delivered{height, width};
        const Box smaller = shrunk_box(region_.box, region_.shrink);
        if (delivered == ImageSize{region_.box.height, region_.box.width}) {
            window_ = region_.box;
        } else if (delivered == ImageSize{smaller.height, smaller.width}) {
            window_ = smaller;
            geometry_ = geometry_.shrunk(region_.shrink);
        } else if (delivered == image_) {
            window_ = {0, 0, height, width};
        } else {
            throw InternalError({.where = "decoder",
                                 .expected = fmt::format("rows of {} x {}", region_.box.height, region_.box.width),
                                 .got = fmt::format("{} x {}", height, width)});
        }
        streams_ = begin_(geometry_, window_, channels);
        if (!streams_) {
            decoded_.reset(height, width, channels);
        }
    }
    std::uint8_t* row(int y) override { return streams_ ? stream_.row(y) : decoded_.view().row(y); }
    void finish() override {
        if (streams_) {
            stream_.finish();
        }
    }

    bool streams() const { return streams_; }  // the result is written

    const Geometry& geometry() const { return geometry_; }  // of the image as the decoder delivered it
    const Box& window() const { return window_; }           // the part of that image that was decoded

  private:
    // The resize of the smaller image may read slightly beyond the exact region, so the union of both is requested.
    void request_shrunk() {
        const int shrink = geometry_.shrink();
        if (shrink == 1) {
            return;
        }
        const Box exact = region_.box;
        const Box smaller = geometry_.shrunk(shrink).reads();
        const int bottom = std::min((smaller.top + smaller.height) * shrink, image_.height);
        const int right = std::min((smaller.left + smaller.width) * shrink, image_.width);
        Box& box = region_.box;
        box.top = std::min(exact.top, smaller.top * shrink);
        box.left = std::min(exact.left, smaller.left * shrink);
        box.height = std::max(exact.top + exact.height, bottom) - box.top;
        box.width = std::max(exact.left + exact.width, right) - box.left;
        region_.shrink = shrink;
    }

    Fold fold_;
    DecodeMode mode_;
    Image& decoded_;
    Begin begin_;
    ResizeStream& stream_;
    bool streams_ = false;
    ImageSize image_{};
    Geometry requested_;  // of the image at full size
    Geometry geometry_;   // of the image as delivered
    Region region_;
    Box window_{};
};

}  // namespace stoker
