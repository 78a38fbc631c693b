// Pixels in memory: views, an owning image, a region of interest, and the sink that a decoder writes rows to. All
// pixels are uint8, interleaved (H, W, C); rows may be padded.
#pragma once

#include <cstdint>
#include <cstring>

#include "stoker/base/buffer.h"

namespace stoker {

// A rectangle in pixels: rows [top, top + height), columns [left, left + width).
struct Box {
    int top = 0;
    int left = 0;
    int height = 0;
    int width = 0;

    bool operator==(const Box&) const = default;
};

template <typename Byte>
struct BasicImageView {
    Byte* data = nullptr;  // (height, width, channels), row y at data + y * stride
    int height = 0;
    int width = 0;
    int channels = 0;
    std::ptrdiff_t stride = 0;  // bytes from one row to the next

    Byte* row(int y) const { return data + y * stride; }
    std::size_t row_bytes() const { return static_cast<std::size_t>(width) * static_cast<std::size_t>(channels); }
    // The part inside `box`, which must lie within the view.
    BasicImageView crop(const Box& box) const {
        return {row(box.top) + std::ptrdiff_t{box.left} * channels, box.height, box.width, channels, stride};
    }
    operator BasicImageView<const Byte>() const { return {data, height, width, channels, stride}; }
};

using ImageView = BasicImageView<std::uint8_t>;
using ConstImageView = BasicImageView<const std::uint8_t>;

// An owning image whose memory is reused from one `reset` to the next.
class Image {
  public:
    Image() = default;
    Image(int height, int width, int channels) { reset(height, width, channels); }

    void reset(int height, int width, int channels) {
        height_ = height;
        width_ = width;
        channels_ = channels;
        buffer_.resize(static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
                       static_cast<std::size_t>(channels));
    }
    ImageView view() {
        return {reinterpret_cast<std::uint8_t*>(buffer_.data()), height_, width_, channels_,
                std::ptrdiff_t{width_} * channels_};
    }
    ConstImageView view() const {
        return {reinterpret_cast<const std::uint8_t*>(buffer_.data()), height_, width_, channels_,
                std::ptrdiff_t{width_} * channels_};
    }
    int height() const { return height_; }
    int width() const { return width_; }
    int channels() const { return channels_; }
    std::size_t bytes() const { return buffer_.size(); }

  private:
    Buffer buffer_;
    int height_ = 0;
    int width_ = 0;
    int channels_ = 0;
};

// The part of an image that a sink needs. A decoder may return it at 1/shrink of its size if that is cheaper: rows
// floor(top / shrink) up to ceil((top + height) / shrink) of the smaller image, columns likewise.
struct Region {
    Box box;
    int shrink = 1;  // 1, 2, 4 or 8
};

// `box` in coordinates of the image at 1/shrink of its size.
inline Box shrunk_box(const Box& box, int shrink) {
    const int top = box.top / shrink;
    const int left = box.left / shrink;
    return {top, left, (box.top + box.height + shrink - 1) / shrink - top,
            (box.left + box.width + shrink - 1) / shrink - left};
}

// Receives a decoder's rows. The decoder calls `region` once it knows the image's size, then `start` with the size that
// it will return, then `row(y)` for y = 0, 1, 2, ... in order (0 is the region's first row) and writes width * channels
// bytes there. The call of row(y + 1), or of `finish`, completes row y. After damage in a file the decoder may call
// `start` again and return all rows again, decoded by another library. Decoders and ops know each other only by this
// type.
class RowSink {
  public:
    virtual ~RowSink() = default;
    virtual Region region(int height, int width) { return {.box = {0, 0, height, width}}; }
    virtual void start(int height, int width, int channels) = 0;
    virtual std::uint8_t* row(int y) = 0;
    virtual void finish() {}
};

// Stores the whole image.
class ImageSink final : public RowSink {
  public:
    explicit ImageSink(Image& image) : image_(image) {}
    void start(int height, int width, int channels) override { image_.reset(height, width, channels); }
    std::uint8_t* row(int y) override { return image_.view().row(y); }

  private:
    Image& image_;
};

inline void copy_pixels(ConstImageView from, ImageView to) {
    for (int y = 0; y < from.height; ++y) {
        std::memcpy(to.row(y), from.row(y), from.row_bytes());
    }
}

}  // namespace stoker
