// Where a transform has its images decoded: the sink learns the size, folds the ops that follow, and asks
// the decoder for nothing but what they read.
#pragma once

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/image.h"
#include "stoker/pipeline/transforms/geometry.h"

namespace stoker {

// How exactly an image that is shrunk has to be decoded.
enum class DecodeMode {
    exact,  // as decoding all of it and then resizing
    fast,   // at 1/2, 1/4 or 1/8 of its size where the decoder does that cheaply: other pixels, nearly the same
};

// `Fold` gives the Geometry of an image of an ImageSize.
template <typename Fold>
class RegionSink final : public RowSink {
  public:
    RegionSink(Fold fold, DecodeMode mode, Image& decoded) : fold_(std::move(fold)), mode_(mode), decoded_(decoded) {}

    Region region(int height, int width) override {
        image_ = {height, width};
        asked_ = geometry_ = fold_(image_);
        region_ = {.box = geometry_.reads()};
        if (mode_ == DecodeMode::fast) {
            ask_for_smaller();
        }
        return region_;
    }

    // A decoder gives the region, the same at 1/shrink, or, where it cannot do better, the whole image.
    void start(int height, int width, int channels) override {
        if (image_ == ImageSize{}) {
            region(height, width);
        }
        geometry_ = asked_;
        const ImageSize given{height, width};
        const Box smaller = shrunk_box(region_.box, region_.shrink);
        if (given == ImageSize{region_.box.height, region_.box.width}) {
            window_ = region_.box;
        } else if (given == ImageSize{smaller.height, smaller.width}) {
            window_ = smaller;
            geometry_ = geometry_.shrunk(region_.shrink);
        } else if (given == image_) {
            window_ = {0, 0, height, width};
        } else {
            throw InternalError({.where = "decoder",
                                 .expected = fmt::format("rows of {} x {}", region_.box.height, region_.box.width),
                                 .got = fmt::format("{} x {}", height, width)});
        }
        decoded_.reset(height, width, channels);
    }
    std::uint8_t* row(int y) override { return decoded_.view().row(y); }

    const Geometry& geometry() const { return geometry_; }  // of the image as it was given
    const Box& window() const { return window_; }           // the part of that image that was

  private:
    // The taps on the smaller image may reach a little further than those on the image itself.
    void ask_for_smaller() {
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
    ImageSize image_{};
    Geometry asked_;  // of the image as it is
    Geometry geometry_;
    Region region_;
    Box window_{};
};

}  // namespace stoker
