// resize_normalize for a strong shrink of rows that a decoder delivers one by one: each is resized while it is in the
// core's cache, and the decoded image is never in memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "stoker/base/image.h"
#include "stoker/ops/resize_normalize.h"

namespace stoker {

struct OpKernels;

class ResizeStream {
  public:
    ResizeStream();
    ResizeStream(ResizeStream&&) noexcept;
    ResizeStream& operator=(ResizeStream&&) noexcept;
    ~ResizeStream();

    // Begins with the arguments of resize_normalize, whose `from` is window.height rows of `channels` channels. Returns
    // false for a geometry that resize_normalize makes as fast from a whole image.
    bool begin(const Box& window, int channels, const ResizeGeometry& geometry, const NormalizeFactors& factors,
               const PixelTarget& target, ResizeScratch& scratch);
    bool begin_with(const OpKernels& kernels, const Box& window, int channels, const ResizeGeometry& geometry,
                    const NormalizeFactors& factors, const PixelTarget& target, ResizeScratch& scratch);

    // The memory for row y of the window, (window.width, channels). Rows come in order; this completes row y - 1.
    std::uint8_t* row(int y);
    // Completes the last row. The target then has the bits of resize_normalize.
    void finish();

    // The time that resizing took since the last call.
    std::chrono::nanoseconds take_time();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace stoker
