// Four rows make a quad of ShrinkRows; rows of the result are written as soon as their quads are complete.
#include "stoker/ops/resize_stream.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "stoker/base/buffer.h"
#include "stoker/ops/kernels.h"
#include "stoker/ops/row_writer.h"
#include "stoker/ops/shrink_rows.h"

namespace stoker {
namespace {

// One-pass kernels are as fast below.
constexpr int kLeastOnePassScale = 8;

}  // namespace

struct ResizeStream::State {
    ResizeJob job;
    Box reads{};  // of the window
    std::optional<ShrinkRows> shrink;
    std::optional<RowWriter> writer;
    ResizeScratch* scratch = nullptr;
    std::size_t row_bytes = 0;  // with bytes behind it that kernels read
    int written = 0;            // rows of the result
    std::chrono::nanoseconds time{};

    std::uint8_t* memory(int row) {
        return reinterpret_cast<std::uint8_t*>(scratch->shrink.rows.data()) + static_cast<std::size_t>(row) * row_bytes;
    }

    // Row y of the reads and those before are complete. The last row is repeated up to a quad.
    void complete(int y) {
        const bool last = y == reads.height - 1;
        if (y % kShrinkRows != kShrinkRows - 1 && !last) {
            return;
        }
        const auto start = std::chrono::steady_clock::now();
        const std::uint8_t* rows[kShrinkRows];
        for (int r = 0; r < kShrinkRows; ++r) {
            rows[r] = memory(std::min(r, y % kShrinkRows)) + std::ptrdiff_t{reads.left} * job.from.channels;
        }
        shrink->add(rows);
        const ImageView line = scratch->line.view();
        for (; written < job.geometry.part.height && shrink->quads_for(written) <= shrink->quads(); ++written) {
            shrink->write(written, line.data);
            writer->write(line, written);
        }
        time += std::chrono::steady_clock::now() - start;
    }
};

ResizeStream::ResizeStream() : state_(std::make_unique<State>()) {}
ResizeStream::ResizeStream(ResizeStream&&) noexcept = default;
ResizeStream& ResizeStream::operator=(ResizeStream&&) noexcept = default;
ResizeStream::~ResizeStream() = default;

bool ResizeStream::begin(const Box& window, int channels, const ResizeGeometry& geometry,
                         const NormalizeFactors& factors, const PixelTarget& target, ResizeScratch& scratch) {
    return begin_with(best_kernels(), window, channels, geometry, factors, target, scratch);
}

bool ResizeStream::begin_with(const OpKernels& kernels, const Box& window, int channels, const ResizeGeometry& geometry,
                              const NormalizeFactors& factors, const PixelTarget& target, ResizeScratch& scratch) {
    const bool one_pass =
        kernels.resize_normalize != nullptr && geometry.source.width / kLeastOnePassScale < geometry.full.width;
    if (kernels.shrink == nullptr || one_pass || !shrinks_much(geometry, channels)) {
        return false;
    }
    const Box& part = geometry.part;
    const Box reads = resize_reads(geometry);
    if (reads.top < window.top || reads.left < window.left || reads.top + reads.height > window.top + window.height ||
        reads.left + reads.width > window.left + window.width) {
        return false;  // resize_normalize throws for it
    }
    scratch.vertical.build(geometry.source.height, geometry.full.height, part.top, part.height, geometry.interpolation);
    scratch.horizontal.build(geometry.source.width, geometry.full.width, part.left, part.width, geometry.interpolation);
    if (!scratch.shrink.filter.build(scratch.horizontal)) {
        return false;
    }
    State& state = *state_;
    state.job = {.from = {nullptr, window.height, window.width, channels, 0},
                 .window = window,
                 .geometry = geometry,
                 .factors = factors,
                 .target = target};
    state.reads = {reads.top - window.top, reads.left - window.left, reads.height, reads.width};
    state.scratch = &scratch;
    state.written = 0;
    state.row_bytes = static_cast<std::size_t>(window.width) * static_cast<std::size_t>(channels) + kShrinkOverread;
    scratch.shrink.rows.resize(kShrinkRows * state.row_bytes);
    std::memset(scratch.shrink.rows.data(), 0, scratch.shrink.rows.size());
    scratch.line.reset(1, part.width, channels);
    state.shrink.emplace(*kernels.shrink, scratch.vertical,
                         static_cast<std::size_t>(part.width) * static_cast<std::size_t>(channels), scratch.shrink);
    state.writer.emplace(kernels, state.job, scratch);
    return true;
}

std::uint8_t* ResizeStream::row(int y) {
    State& state = *state_;
    const int at = y - state.reads.top;  // rows above and below are decoded, but not read
    if (at > 0 && at <= state.reads.height) {
        state.complete(at - 1);
    }
    return state.memory(at < 0 ? 0 : at % kShrinkRows);
}

void ResizeStream::finish() {
    State& state = *state_;
    if (state.reads.top + state.reads.height == state.job.window.height) {
        state.complete(state.reads.height - 1);
    }
}

std::chrono::nanoseconds ResizeStream::take_time() {
    return std::exchange(state_->time, {});
}

}  // namespace stoker
