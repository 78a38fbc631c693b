// Baseline Huffman decoding (ITU-T T.81, annex F), faster than libjpeg's: stuffed bytes are removed first, and several
// pieces of the scan are decoded at once where their beginnings are known, by restart markers or by entry points. It
// reads only valid files; JpegDecoder gives all others to libjpeg. Internal to codecs/.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/codecs/jpeg/entry_points.h"
#include "stoker/codecs/jpeg/jpeg_frame.h"
#include "stoker/codecs/jpeg/scan_kernels.h"

namespace stoker {

class HuffmanReader final : public BlockRows {
  public:
    explicit HuffmanReader(const ScanKernels& kernels = best_scan_kernels()) : kernels_(kernels) {}

    // `scan`: the bytes after the header of an opened JPEG. Returns false unless it is one baseline scan, which is
    // complete unless points are known.
    // `points`, if not null, must stay valid: known ones are used, and further rows add theirs. Throws HuffmanError for
    // points that cannot be those of the scan.
    bool open(const jpeg_decompress_struct& codec, const JpegFrame& frame, std::span<const std::byte> scan,
              EntryPointSlot* points = nullptr);

    void want(int end_row, int first_column, int end_column) override;

    // Decodes MCU rows on demand. Rows before are decoded only if the beginning of this one is not known. Throws
    // HuffmanError.
    const std::int16_t* blocks(int component, int block_row, int first, int count) override;

    // Adds the points of all rows that have none, and decodes no others. Throws HuffmanError.
    void complete_points();

    // The wanted MCUs of these rows, for a decoder elsewhere: collected, but not decoded. Valid until the next call;
    // empty unless the points of all rows are known. Throws HuffmanError.
    struct Pieces {
        std::span<const ScanPiece> pieces;    // MCUs are counted from row `row`
        std::vector<const EntryPoint*> ends;  // at which each piece must end
        std::span<const std::uint8_t> bytes;  // with kScanPadding
    };
    Pieces pieces(int row, int end_row);
    // The blocks of an MCU. Their places in memory are those of HuffmanReader.
    const ScanLayout& layout() const { return layout_; }

    // Checks that the scan ends here, with an end-of-image marker. Throws HuffmanError.
    void finish();

    // The time that decoding took since the last call.
    std::chrono::nanoseconds take_time() { return std::exchange(time_, {}); }

  private:
    // The beginning of the MCU `mcu`.
    struct State {
        std::uint32_t mcu = 0;
        std::uint64_t bit = 0;  // in data_
        std::array<int, 3> dc{};
    };

    bool read_tables(const jpeg_decompress_struct& codec);
    void plan_blocks();
    bool collect(std::span<const std::byte> scan);
    void start_sequence(const EntryPoint& point);
    std::uint32_t rows_together(std::uint32_t row) const;
    void decode_rows(std::uint32_t row);
    std::uint64_t segment_begin(std::uint32_t segment) const {
        return segment == 0 ? 0 : std::uint64_t{8} * ends_[segment - 1];
    }
    void decode_segments(std::uint32_t first, std::uint32_t end, const ScanLayout& layout);
    void decode_rows_of_segments(std::uint32_t first, std::uint32_t end);
    void add_point_pieces(std::uint32_t row, std::uint32_t count);
    void decode_in_sequence(std::uint32_t first, std::uint32_t end, const ScanLayout& layout);
    const EntryPoint& end_of(const ScanPiece& piece, std::uint32_t row) const;
    void check_points(std::uint32_t row) const;
    void record(const State& state);

    // Points of a row.
    std::uint32_t points_wide() const { return (mcus_wide_ + points_->known.step - 1) / points_->known.step; }
    // Rows whose points are known.
    std::uint32_t known_rows() const;

    const ScanKernels& kernels_;
    const JpegFrame* frame_ = nullptr;
    std::uint32_t mcus_wide_ = 0;
    std::uint32_t mcus_high_ = 0;
    HuffmanTable dc_[2];
    HuffmanTable ac_[2];
    ScanLayout layout_;
    ScanLayout unwanted_;  // puts all blocks at one place
    std::span<const std::byte> scan_;
    EntryPointSlot* points_ = nullptr;
    std::vector<std::uint8_t> data_;    // the scan, or the pieces of it that are decoded, without stuffed bytes and
                                        // restart markers
    std::vector<std::size_t> stuffed_;  // places in data_ before which a stuffed byte was removed
    std::size_t removed_ = 0;           // of stuffed_: those before the last point
    std::size_t collected_ = 0;         // the place of data_ in the scan
    std::vector<std::size_t> ends_;     // end of each restart segment in data_; empty: not collected yet
    std::uint32_t interval_ = 0;        // MCUs per restart segment; 0: no restarts
    bool ended_ = false;                // the scan ends with an end-of-image marker
    State state_;                       // behind the rows that were decoded
    std::uint32_t end_row_ = 0;         // of MCUs that are wanted
    std::uint32_t first_column_ = 0;
    std::uint32_t end_column_ = 0;
    std::uint32_t first_row_ = 0;  // the MCU rows that are in blocks_
    std::uint32_t rows_ = 0;
    std::vector<ScanPiece> pieces_;
    std::chrono::nanoseconds time_{};
    Buffer blocks_;                        // by component, block row, column; (8, 8) each
    std::array<std::size_t, 3> starts_{};  // each component's first block
};

}  // namespace stoker
