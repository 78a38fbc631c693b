// Rows of pixels to a sample of a batch: flip, normalize, element type and layout. Internal to ops/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stoker/ops/flip.h"
#include "stoker/ops/kernels.h"

namespace stoker {

// Writes one row at a time to the target, for every type and layout. The job must stay valid.
class RowWriter {
  public:
    RowWriter(const OpKernels& kernels, const ResizeJob& job, ResizeScratch& scratch)
        : kernels_(kernels),
          job_(job),
          channels_(static_cast<std::size_t>(job.from.channels)),
          width_(static_cast<std::size_t>(job.geometry.part.width)),
          plane_(width_ * static_cast<std::size_t>(job.geometry.part.height)),
          item_(item_size(job.target.dtype)) {
        scratch.floats.resize(width_ * channels_ * sizeof(float));
        floats_ = reinterpret_cast<float*>(scratch.floats.data());
    }

    // Writes `line` (1, W, C) as row y, flipped if the geometry says so, which may change the line.
    void write(ImageView line, int y) const {
        if (!write_planes(line.data, y, job_.geometry.flip)) {
            if (job_.geometry.flip) {
                horizontal_flip(line);
            }
            write(line.data, y);
        }
    }

    // Writes `pixels` (W, C) as row y.
    void write(const std::uint8_t* pixels, int y) const {
        const PixelTarget& target = job_.target;
        if (write_planes(pixels, y, false)) {
            return;
        }
        const bool planes = target.layout == Layout::chw;
        const std::size_t row = static_cast<std::size_t>(y) * width_;
        std::byte* out = target.data + row * (planes ? 1 : channels_) * item_;
        if (target.dtype == DType::float32) {
            kernels_.normalize(pixels, width_, job_.from.channels, job_.factors, target.layout,
                               reinterpret_cast<float*>(out), plane_);
            return;
        }
        const std::size_t runs = planes ? channels_ : 1;
        const std::size_t length = width_ * channels_ / runs;
        if (target.dtype == DType::uint8) {
            for (std::size_t c = 0; c < runs; ++c) {
                auto* bytes = reinterpret_cast<std::uint8_t*>(out + c * plane_);
                for (std::size_t i = 0; i < length; ++i) {
                    bytes[i] = pixels[i * runs + c];
                }
            }
            return;
        }
        kernels_.normalize(pixels, width_, job_.from.channels, job_.factors, target.layout, floats_, width_);
        for (std::size_t c = 0; c < runs; ++c) {
            kernels_.to_16bit(floats_ + c * width_, length, target.dtype,
                              reinterpret_cast<std::uint16_t*>(out + c * plane_ * item_));
        }
    }

  private:
    // Writes a row by the set's own function. Returns false if it has none for this target.
    bool write_planes(const std::uint8_t* pixels, int y, bool flip) const {
        const PixelTarget& target = job_.target;
        if (kernels_.write_planes == nullptr || channels_ != 3 || target.layout != Layout::chw) {
            return false;
        }
        return kernels_.write_planes({.pixels = pixels,
                                      .count = width_,
                                      .factors = &job_.factors,
                                      .dtype = target.dtype,
                                      .flip = flip,
                                      .out = target.data + static_cast<std::size_t>(y) * width_ * item_,
                                      .plane = plane_});
    }

    const OpKernels& kernels_;
    const ResizeJob& job_;
    std::size_t channels_;
    std::size_t width_;
    std::size_t plane_;
    std::size_t item_;
    float* floats_;
};

}  // namespace stoker
