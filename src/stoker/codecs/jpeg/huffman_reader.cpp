// Rows are decoded in sequence, or several at a time if the beginnings of their pieces are known.
#include "stoker/codecs/jpeg/huffman_reader.h"

#include <algorithm>
#include <cstring>

#include "stoker/codecs/jpeg/huffman_writer.h"

namespace stoker {
namespace {

// The largest symbol of a DC table: the number of bits of a difference.
constexpr int kMaxDcBits = 15;

// Rows that are decoded together have at most so many blocks: 512 KiB, which a core's cache holds until the inverse
// DCT.
constexpr std::size_t kMostBlocks = 4096;

// Entry points are that far apart: at a hundredth of the data's size, there are enough for a crop's rows.
constexpr std::uint64_t kPointBytes = 1024;

// Copies the bytes before the first 0xff, eight at a time, since smooth images have one in a few dozen. Returns its
// place, or `end`. Writes up to 8 bytes more.
const std::uint8_t* copy_to_mark(const std::uint8_t* at, const std::uint8_t* end, std::uint8_t*& out) {
    constexpr std::uint64_t kOnes = 0x0101010101010101;
    while (end - at >= 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, at, sizeof word);
        std::memcpy(out, &word, sizeof word);
        const std::uint64_t marks = (~word - kOnes) & word & (kOnes << 7);
        if (marks != 0) {
            break;
        }
        at += 8;
        out += 8;
    }
    while (at != end && *at != 0xff) {
        *out++ = *at++;
    }
    return at;
}

}  // namespace

bool HuffmanReader::read_tables(const jpeg_decompress_struct& codec) {
    int block = 0;
    for (int c = 0; c < frame_->components; ++c) {
        const jpeg_component_info& info = *codec.cur_comp_info[c];
        const FrameComponent& comp = frame_->component[JpegFrame::at(c)];
        if (info.dc_tbl_no > 1 || info.ac_tbl_no > 1 || block + comp.h * comp.v > kMaxMcuBlocks ||
            !dc_[info.dc_tbl_no].build(*codec.dc_huff_tbl_ptrs[info.dc_tbl_no], true, kMaxDcBits) ||
            !ac_[info.ac_tbl_no].build(*codec.ac_huff_tbl_ptrs[info.ac_tbl_no], false, 255)) {
            return false;
        }
        for (int i = 0; i < comp.h * comp.v; ++i, ++block) {
            layout_.blocks[static_cast<std::size_t>(block)] = {
                .component = c, .dc = &dc_[info.dc_tbl_no], .ac = &ac_[info.ac_tbl_no]};
        }
    }
    layout_.mcu_blocks = block;
    layout_.mcus_wide = mcus_wide_;
    return true;
}

// Components one behind the other, each with the block rows of `rows_` MCU rows.
void HuffmanReader::plan_blocks() {
    std::size_t all = 0;
    int block = 0;
    for (int c = 0; c < frame_->components; ++c) {
        starts_[static_cast<std::size_t>(c)] = all;
        const FrameComponent& comp = frame_->component[JpegFrame::at(c)];
        const auto wide = static_cast<std::size_t>(comp.blocks_wide);
        for (int v = 0; v < comp.v; ++v) {
            for (int h = 0; h < comp.h; ++h, ++block) {
                ScanLayout::Block& place = layout_.blocks[static_cast<std::size_t>(block)];
                place.start = all + static_cast<std::size_t>(v) * wide + static_cast<std::size_t>(h);
                place.row_step = static_cast<std::size_t>(comp.v) * wide;
                place.column_step = static_cast<std::size_t>(comp.h);
            }
        }
        all += rows_ * static_cast<std::size_t>(comp.v) * wide;
    }
    blocks_.resize((all + 4) * kBlockSize * sizeof(std::int16_t));
    unwanted_ = layout_;
    for (ScanLayout::Block& place : unwanted_.blocks) {
        place.start = all;
        place.row_step = place.column_step = 0;
    }
}

bool HuffmanReader::open(const jpeg_decompress_struct& codec, const JpegFrame& frame, std::span<const std::byte> scan,
                         EntryPointSlot* points) {
    frame_ = &frame;
    mcus_wide_ = static_cast<std::uint32_t>(frame.mcus_wide);
    mcus_high_ = static_cast<std::uint32_t>(frame.mcus_high);
    if (!is_baseline_scan(codec) || !read_tables(codec)) {
        return false;
    }
    scan_ = scan;
    interval_ = codec.restart_interval;
    points_ = interval_ == 0 && scan.size() <= UINT32_MAX ? points : nullptr;
    ends_.clear();
    ended_ = false;
    state_ = {};
    first_row_ = rows_ = 0;
    end_row_ = mcus_high_;
    first_column_ = 0;
    end_column_ = mcus_wide_;
    if (points_ != nullptr && points_->known.points.empty()) {
        const std::uint64_t mcus = std::uint64_t{mcus_wide_} * mcus_high_;
        points_->known.step = static_cast<std::uint32_t>(
            std::clamp<std::uint64_t>(mcus * kPointBytes / std::max<std::size_t>(scan.size(), 1), 1, mcus_wide_));
    }
    if (points_ != nullptr &&
        (points_->known.step == 0 || points_->known.step > mcus_wide_ || known_rows() > mcus_high_ ||
         (!points_->known.points.empty() &&
          points_->known.points.size() != std::size_t{known_rows()} * points_wide() + 1))) {
        throw HuffmanError{};
    }
    return points_ != nullptr && known_rows() > 0 ? true : collect(scan);
}

std::uint32_t HuffmanReader::known_rows() const {
    const std::size_t points = points_ == nullptr ? 0 : points_->known.points.size();
    return points == 0 ? 0 : static_cast<std::uint32_t>((points - 1) / points_wide());
}

void HuffmanReader::want(int end_row, int first_column, int end_column) {
    end_row_ = std::min(mcus_high_, static_cast<std::uint32_t>(end_row));
    first_column_ = static_cast<std::uint32_t>(first_column);
    end_column_ = std::min(mcus_wide_, static_cast<std::uint32_t>(end_column));
}

// Copies the scan without stuffed zeros and restart markers, up to the first other marker.
bool HuffmanReader::collect(std::span<const std::byte> scan) {
    const auto* at = reinterpret_cast<const std::uint8_t*>(scan.data());
    const std::uint8_t* end = at + scan.size();
    collected_ = scan_.size() - scan.size();
    if (data_.size() < scan.size() + kScanPadding) {
        data_.resize(scan.size() + kScanPadding);
    }
    std::uint8_t* out = data_.data();
    ends_.clear();
    stuffed_.clear();
    removed_ = 0;
    for (int restarts = 0;;) {
        const std::uint8_t* const mark = copy_to_mark(at, end, out);
        if (end - mark < 2) {
            return false;
        }
        at = mark + 2;
        if (mark[1] == 0) {
            *out++ = 0xff;
            if (points_ != nullptr) {
                stuffed_.push_back(static_cast<std::size_t>(out - data_.data()));
            }
            continue;
        }
        ends_.push_back(static_cast<std::size_t>(out - data_.data()));
        if (mark[1] == 0xd0 + restarts % 8 && interval_ != 0) {
            ++restarts;
            continue;
        }
        ended_ = mark[1] == 0xd9;
        std::memset(out, 0, kScanPadding);
        return true;
    }
}

// Goes on behind the last known point.
void HuffmanReader::start_sequence(const EntryPoint& point) {
    if (point.byte > scan_.size() || !collect(scan_.subspan(point.byte))) {
        throw HuffmanError{};
    }
    state_ = {.mcu = known_rows() * mcus_wide_, .bit = point.bit, .dc = {}};
    std::ranges::copy(point.dc, state_.dc.begin());
}

void HuffmanReader::record(const State& state) {
    while (removed_ < stuffed_.size() && stuffed_[removed_] <= state.bit >> 3) {
        ++removed_;
    }
    EntryPoint point{.byte = static_cast<std::uint32_t>(collected_ + (state.bit >> 3) + removed_),
                     .bit = static_cast<std::uint8_t>(state.bit & 7)};
    std::ranges::transform(state.dc, point.dc.begin(), [](int dc) { return static_cast<std::int16_t>(dc); });
    points_->known.points.push_back(point);
}

// MCUs that follow those before; at entry points, if these are wanted.
void HuffmanReader::decode_in_sequence(std::uint32_t first, std::uint32_t end, const ScanLayout& layout) {
    const std::uint32_t offset = first_row_ * mcus_wide_;
    const bool records = points_ != nullptr;
    if (records && points_->known.points.empty()) {
        record(state_);
    }
    for (std::uint32_t mcu = first; mcu < end;) {
        const std::uint32_t column = mcu % mcus_wide_;
        const std::uint32_t step = records ? std::min(points_->known.step, mcus_wide_ - column) : end - mcu;
        ScanPiece piece{.bit = state_.bit,
                        .limit = std::uint64_t{8} * ends_.front(),
                        .first = &layout == &layout_ ? mcu - offset : 0,
                        .count = std::min(step, end - mcu),
                        .dc = state_.dc};
        kernels_.decode(layout, data_.data(), {&piece, 1}, reinterpret_cast<std::int16_t*>(blocks_.data()));
        mcu += piece.count;
        state_ = {.mcu = mcu, .bit = piece.bit, .dc = piece.dc};
        if (piece.bit > piece.limit) {
            throw HuffmanError{};
        }
        if (records) {
            record(state_);
            points_->grown = true;
        }
    }
}

// Pieces from `first` on, each up to the next restart. Afterwards state_ is behind them.
void HuffmanReader::decode_segments(std::uint32_t first, std::uint32_t end, const ScanLayout& layout) {
    pieces_.clear();
    for (std::uint32_t mcu = first; mcu < end;) {
        const std::uint32_t segment = mcu / interval_;
        if (segment >= ends_.size()) {
            throw HuffmanError{};
        }
        const bool restarts = mcu % interval_ == 0;
        const std::uint64_t left = std::uint64_t{segment + 1} * interval_ - mcu;
        pieces_.push_back({.bit = restarts ? segment_begin(segment) : state_.bit,
                           .limit = std::uint64_t{8} * ends_[segment],
                           .first = &layout == &layout_ ? mcu - first : 0,
                           .count = static_cast<std::uint32_t>(std::min<std::uint64_t>(left, end - mcu)),
                           .dc = restarts ? std::array<int, 3>{} : state_.dc});
        mcu += pieces_.back().count;
    }
    if (pieces_.empty()) {
        return;
    }
    kernels_.decode(layout, data_.data(), pieces_, reinterpret_cast<std::int16_t*>(blocks_.data()));
    if (std::ranges::any_of(pieces_, [](const ScanPiece& piece) { return piece.bit > piece.limit; })) {
        throw HuffmanError{};
    }
    state_ = {.mcu = end, .bit = pieces_.back().bit, .dc = pieces_.back().dc};
}

// Rows before are skipped where a restart allows it. If there is another number of segments than the image has, libjpeg
// decides where they belong, so that these rows must be valid.
void HuffmanReader::decode_rows_of_segments(std::uint32_t first, std::uint32_t end) {
    const std::uint64_t mcus = std::uint64_t{mcus_wide_} * mcus_high_;
    if (ends_.size() == (mcus + interval_ - 1) / interval_) {
        const std::uint32_t begin = first / interval_ * interval_;
        state_ = begin > state_.mcu ? State{.mcu = begin, .bit = segment_begin(first / interval_), .dc = {}} : state_;
    }
    decode_segments(state_.mcu, first, unwanted_);
    decode_segments(first, end, layout_);
}

// The wanted pieces of some rows, whose bytes are collected into data_.
void HuffmanReader::add_point_pieces(std::uint32_t row, std::uint32_t count) {
    const std::uint32_t step = points_->known.step;
    const auto* const scan = reinterpret_cast<const std::uint8_t*>(scan_.data());
    std::size_t size = 0;
    for (std::uint32_t r = row; r < row + count; ++r) {
        for (std::uint32_t i = first_column_ / step; i * step < end_column_; ++i) {
            const EntryPoint* const point = &points_->known.points[std::size_t{r} * points_wide() + i];
            const std::size_t end = std::size_t{point[1].byte} + (point[1].bit > 0 ? 1 : 0);
            if (point->byte > end || end > scan_.size() || point->bit > 7 || point[1].bit > 7) {
                throw HuffmanError{};
            }
            const std::size_t begin = size;
            if (data_.size() < begin + (end - point->byte) + kScanPadding) {
                data_.resize(2 * (begin + (end - point->byte) + kScanPadding));
            }
            const std::uint8_t* at = scan + point->byte;
            std::uint8_t* out = data_.data() + begin;
            while (at < scan + end) {
                at = copy_to_mark(at, scan + end, out);
                if (at < scan + end) {
                    *out++ = 0xff;
                    at += 2;  // without the stuffed zero
                }
            }
            size = static_cast<std::size_t>(out - data_.data());
            ScanPiece piece{.bit = std::uint64_t{8} * begin + point->bit,
                            .limit = std::uint64_t{8} * size,
                            .first = (r - row) * mcus_wide_ + i * step,
                            .count = std::min(step, mcus_wide_ - i * step)};
            std::ranges::copy(point->dc, piece.dc.begin());
            pieces_.push_back(piece);
        }
    }
    std::memset(data_.data() + size, 0, kScanPadding);
}

// The beginning of the next piece. `row` is that of the first MCU.
const EntryPoint& HuffmanReader::end_of(const ScanPiece& piece, std::uint32_t row) const {
    const std::size_t number =
        std::size_t{row + piece.first / mcus_wide_} * points_wide() + piece.first % mcus_wide_ / points_->known.step;
    return points_->known.points[number + 1];
}

// Each piece ends where the next one begins.
void HuffmanReader::check_points(std::uint32_t row) const {
    for (const ScanPiece& piece : pieces_) {
        const EntryPoint& next = end_of(piece, row);
        if (piece.bit != piece_end(piece, next) || !std::ranges::equal(piece.dc, next.dc)) {
            throw HuffmanError{};
        }
    }
}

HuffmanReader::Pieces HuffmanReader::pieces(int row, int end_row) {
    const auto first = static_cast<std::uint32_t>(row);
    if (points_ == nullptr || static_cast<std::uint32_t>(end_row) > known_rows()) {
        return {};
    }
    pieces_.clear();
    add_point_pieces(first, static_cast<std::uint32_t>(end_row - row));
    Pieces all{.pieces = pieces_, .ends = {}, .bytes = {}};
    for (const ScanPiece& piece : pieces_) {
        all.ends.push_back(&end_of(piece, first));
    }
    all.bytes = {data_.data(), pieces_.empty() ? 0 : static_cast<std::size_t>(pieces_.back().limit / 8) + kScanPadding};
    return all;
}

// More than one only if there are pieces to decode at once.
std::uint32_t HuffmanReader::rows_together(std::uint32_t row) const {
    const std::uint32_t known = known_rows();
    if (row >= known && interval_ == 0) {
        return 1;
    }
    const std::size_t row_blocks = std::size_t{mcus_wide_} * static_cast<std::size_t>(layout_.mcu_blocks);
    const auto most = static_cast<std::uint32_t>(std::max<std::size_t>(kMostBlocks / row_blocks, 1));
    const std::uint32_t end = std::max(std::min(row < known ? known : mcus_high_, end_row_), row + 1);
    return std::min(most, end - row);
}

void HuffmanReader::decode_rows(std::uint32_t row) {
    if (row >= mcus_high_) {
        throw HuffmanError{};
    }
    first_row_ = row;
    rows_ = rows_together(row);
    plan_blocks();
    if (row < known_rows()) {
        pieces_.clear();
        add_point_pieces(row, rows_);
        kernels_.decode(layout_, data_.data(), pieces_, reinterpret_cast<std::int16_t*>(blocks_.data()));
        check_points(row);
        return;
    }
    if (ends_.empty()) {
        start_sequence(points_->known.points.back());
    }
    const std::uint32_t first = row * mcus_wide_;
    const std::uint32_t end = first + rows_ * mcus_wide_;
    if (interval_ != 0) {
        decode_rows_of_segments(first, end);
        return;
    }
    decode_in_sequence(state_.mcu, first, unwanted_);
    decode_in_sequence(first, end, layout_);
}

const std::int16_t* HuffmanReader::blocks(int component, int block_row, int first, int /*count*/) {
    const FrameComponent& comp = frame_->component[JpegFrame::at(component)];
    const auto row = static_cast<std::uint32_t>(block_row / comp.v);
    if (row < first_row_ || row >= first_row_ + rows_) {
        const auto start = std::chrono::steady_clock::now();
        decode_rows(row);
        time_ += std::chrono::steady_clock::now() - start;
    }
    const auto wide = static_cast<std::size_t>(comp.blocks_wide);
    const std::size_t block =
        starts_[static_cast<std::size_t>(component)] +
        (static_cast<std::size_t>(block_row) - first_row_ * static_cast<std::size_t>(comp.v)) * wide +
        static_cast<std::size_t>(first);
    return reinterpret_cast<const std::int16_t*>(blocks_.data()) + block * kBlockSize;
}

void HuffmanReader::complete_points() {
    if (points_ == nullptr || known_rows() == mcus_high_) {
        return;
    }
    if (rows_ == 0) {
        plan_blocks();
    }
    const auto start = std::chrono::steady_clock::now();
    if (ends_.empty()) {
        start_sequence(points_->known.points.back());
    }
    decode_in_sequence(state_.mcu, mcus_high_ * mcus_wide_, unwanted_);
    time_ += std::chrono::steady_clock::now() - start;
}

void HuffmanReader::finish() {
    const std::uint64_t mcus = std::uint64_t{mcus_wide_} * mcus_high_;
    if (known_rows() == mcus_high_ && ends_.empty()) {  // all by entry points
        start_sequence(points_->known.points.back());
    }
    const std::uint64_t segments = interval_ == 0 ? 1 : (mcus + interval_ - 1) / interval_;
    if (state_.mcu != mcus || ends_.size() != segments || !ended_) {
        throw HuffmanError{};
    }
}

}  // namespace stoker
