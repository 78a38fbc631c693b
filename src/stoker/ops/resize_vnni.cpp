// resize_normalize for AVX-512 with VNNI: the horizontal pass filters four rows at a time into a ring of quad rows, and
// the vertical pass writes each output row directly to the target.
#include <algorithm>

#include "stoker/ops/kernels.h"
#include "stoker/ops/kernels_vnni.h"

namespace stoker {
namespace {

constexpr int kGroup = VnniFilter::kLanesPerGroup;
constexpr int kMaxTaps = 1 << 13;  // with more taps, results could exceed 255

struct QuadShape {
    int channels;
    int blocks;
    bool planes;

    std::size_t bytes() const { return static_cast<std::size_t>(channels * blocks) * kQuadVector; }
};

// Runs both passes over one image.
class VnniResizer {
  public:
    VnniResizer(const ResizeJob& job, ResizeScratch& scratch, const Box& reads)
        : job_(job),
          scratch_(scratch),
          reads_(reads),
          shape_{job.from.channels, scratch.vnni_filter.blocks(), job.target.layout == Layout::chw},
          clips_(may_overshoot(job.geometry.interpolation)),
          filter_(filter_rows_for(shape_.channels, scratch.vnni_filter.quads(), clips_)),
          ring_(std::min((scratch.vertical.stride + kQuadRows - 1) / kQuadRows + 1,
                         (reads.height + kQuadRows - 1) / kQuadRows)) {
        scratch.quads.resize(shape_.bytes() * static_cast<std::size_t>(ring_));
        scratch.quad_rows.resize(static_cast<std::size_t>(ring_));
        scratch.quad_digits.resize(static_cast<std::size_t>(ring_) * kDigits);
        for (int i = 0; i < 4 * kGroup; ++i) {
            // With planes, a run of 16 lanes has one channel.
            const auto c = static_cast<std::size_t>(shape_.planes ? i / kGroup : i % shape_.channels);
            scale_[i] = job.factors.scale[c];
            bias_[i] = job.factors.bias[c];
        }
    }

    void run() {
        for (int y = 0; y < job_.geometry.part.height; ++y) {
            const ResizeTaps taps = scratch_.vertical.taps[static_cast<std::size_t>(y)];
            const int first = taps.first - reads_.top;
            while (filtered_ * kQuadRows < first + taps.count) {
                filter();
            }
            write(y, first, taps.count);
        }
    }

  private:
    std::byte* quad(int number) {
        return scratch_.quads.data() + shape_.bytes() * static_cast<std::size_t>(number % ring_);
    }

    // Filters the next four rows; repeats the last row if there are fewer.
    void filter() {
        const std::uint8_t* rows[kQuadRows];
        for (int r = 0; r < kQuadRows; ++r) {
            const int y = std::min(filtered_ * kQuadRows + r, reads_.height - 1);
            rows[r] = job_.from.row(reads_.top - job_.window.top + y);
        }
        filter_(rows, scratch_.vnni_filter, shape_.planes, quad(filtered_));
        ++filtered_;
    }

    // Writes output row y from rows first ... first + count - 1.
    void write(int y, int first, int count) {
        const std::int32_t* weights = scratch_.vertical.weights.data() + y * std::ptrdiff_t{scratch_.vertical.stride};
        const int begin = first / kQuadRows;
        const int quads = (first + count - 1) / kQuadRows - begin + 1;
        auto* digits = reinterpret_cast<std::uint32_t(*)[kDigits]>(scratch_.quad_digits.data());
        for (int q = 0; q < quads; ++q) {
            std::int32_t four[kQuadRows];
            for (int r = 0; r < kQuadRows; ++r) {
                const int k = (begin + q) * kQuadRows + r - first;
                four[r] = k >= 0 && k < count ? weights[k] : 0;
            }
            split_weights(four, digits[q]);
            scratch_.quad_rows[static_cast<std::size_t>(q)] = quad(begin + q);
        }
        write_row(y, {scratch_.quad_rows.data(), digits, quads});
    }

    void write_row(int y, const QuadTaps& taps) {
        const auto width = static_cast<std::size_t>(job_.geometry.part.width);
        const auto height = static_cast<std::size_t>(job_.geometry.part.height);
        const auto channels = static_cast<std::size_t>(shape_.channels);
        const std::size_t item = item_size(job_.target.dtype);
        const std::size_t runs = shape_.planes ? channels : 1;
        const std::size_t values = width * channels / runs;
        const WriteRun run_writer = write_run_for(job_.target.dtype, taps.count, clips_);
        for (std::size_t c = 0; c < runs; ++c) {
            const LaneFactors factors{scale_ + c * kGroup, bias_ + c * kGroup, shape_.planes ? 1 : shape_.channels};
            std::byte* out = job_.target.data + (c * height * width + static_cast<std::size_t>(y) * values) * item;
            const bool streamed = job_.target.streamed && reinterpret_cast<std::uintptr_t>(out) % kQuadVector == 0;
            run_writer(taps, c * static_cast<std::size_t>(shape_.blocks) * kQuadVector, values, factors, out, streamed);
        }
    }

    const ResizeJob& job_;
    ResizeScratch& scratch_;
    const Box reads_;
    const QuadShape shape_;
    const bool clips_;  // sums may leave 0 to 255
    const FilterRows filter_;
    const int ring_;    // quad rows in the ring
    int filtered_ = 0;  // quad rows after the horizontal pass
    alignas(kQuadVector) float scale_[4 * kGroup];
    alignas(kQuadVector) float bias_[4 * kGroup];
};

}  // namespace

bool resize_normalize_vnni(const ResizeJob& job, ResizeScratch& scratch) {
    const auto& [source, full, part, flip, interpolation] = job.geometry;
    scratch.horizontal.build(source.width, full.width, part.left, part.width, interpolation);
    scratch.vertical.build(source.height, full.height, part.top, part.height, interpolation);
    if (scratch.vertical.stride > kMaxTaps ||
        !scratch.vnni_filter.build(scratch.horizontal, job.window.left, static_cast<int>(job.from.row_bytes()),
                                   job.from.channels, flip)) {
        return false;
    }
    VnniResizer(job, scratch, resize_reads(job.geometry)).run();
    if (job.target.streamed) {
        fence_streamed();
    }
    return true;
}

}  // namespace stoker
