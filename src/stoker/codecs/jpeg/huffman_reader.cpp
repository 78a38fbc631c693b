// The loop over a block's coefficients is a chain of dependent table look-ups: each one needs the length that the
// previous one returned. All other work is kept off that chain.
#include "stoker/codecs/jpeg/huffman_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "stoker/codecs/jpeg/huffman_writer.h"

namespace stoker {
namespace {

// The most bytes of one block, and what refill() reads beyond them.
constexpr std::size_t kPadding = 64 * 32 / 8 + 64;

constexpr int kMaxMcuBlocks = 10;  // T.81, B.2.3

// The largest symbol of a DC table: the number of bits of a difference.
constexpr int kMaxDcBits = 15;

// Zigzag index to natural order. The end-of-block code is a run of kEnd, so indices beyond 63 occur; they map to index
// 0, whose value, the DC, is written last.
constexpr unsigned kEnd = 128;
constexpr auto kNatural = [] {
    std::array<std::uint8_t, 256> natural{};
    for (std::size_t k = 0; k < kBlockSize; ++k) {
        natural[k] = kZigzag[k];
    }
    return natural;
}();

// Decodes `size` value bits (T.81, F.2.2.1): values whose first bit is 0 are negative.
int value_of(unsigned bits, int size) {
    return static_cast<int>(bits) - ((bits >> (size - 1) & 1) == 0 ? (1 << size) - 1 : 0);
}

}  // namespace

void HuffmanTable::add(std::uint32_t code, unsigned length, std::uint8_t symbol) {
    const unsigned size = symbol & 15U;
    const unsigned spare = kBits - length;  // bits after the code
    for (unsigned rest = 0; rest < 1U << spare; ++rest) {
        const std::size_t at = std::size_t{code} << spare | rest;
        symbols_[at] = {symbol, static_cast<std::uint8_t>(length)};
        const unsigned run = symbol >> 4;
        if (size == 0) {  // end of block, or 16 zeros: stored as 15 zeros and a value of 0
            entries_[at] = Entry(0, run == 15 ? run : kEnd, length);
        } else if (size <= spare) {
            entries_[at] = Entry(value_of(rest >> (spare - size), static_cast<int>(size)), run, length + size);
        }
    }
}

bool HuffmanTable::build(const JHUFF_TBL& table, int largest) {
    if (built_ && std::memcmp(table.bits, table_.bits, sizeof table.bits) == 0 &&
        std::memcmp(table.huffval, table_.huffval, sizeof table.huffval) == 0) {
        return true;
    }
    built_ = false;
    table_ = table;
    entries_.fill({});
    symbols_.fill({});
    std::uint32_t code = 0;
    std::uint32_t place = 0;
    for (unsigned length = 1; length <= 16; ++length, code <<= 1) {
        offsets_[length] = place - code;
        for (int i = 0; i < table.bits[length]; ++i, ++code, ++place) {
            if (place >= 256 || code >> length != 0 || table.huffval[place] > largest) {
                return false;
            }
            if (length <= kBits) {
                add(code, length, table.huffval[place]);
            }
        }
        limits_[length] = code << (16 - length);
    }
    built_ = true;
    return true;
}

HuffmanTable::Symbol HuffmanTable::symbol(std::uint64_t bits) const {
    const Symbol quick = symbols_[bits >> (64 - kBits)];
    if (quick.length != 0) {
        return quick;
    }
    const auto top = static_cast<std::uint32_t>(bits >> 48);
    for (unsigned length = kBits + 1; length <= 16; ++length) {
        if (top < limits_[length]) {
            const std::uint32_t place = (top >> (16 - length)) + offsets_[length];
            return {table_.huffval[place & 255], static_cast<std::uint8_t>(length)};
        }
    }
    return {0, 0};
}

HuffmanTable::Entry HuffmanTable::long_entry(std::uint64_t bits) const {
    const Symbol code = symbol(bits);
    if (code.length == 0) {
        throw HuffmanError{};
    }
    const unsigned size = code.symbol & 15U;
    const unsigned run = code.symbol >> 4;
    if (size == 0) {
        return Entry(0, run == 15 ? run : kEnd, code.length);
    }
    const auto value_bits = static_cast<unsigned>(bits << code.length >> (64 - size));
    return Entry(value_of(value_bits, static_cast<int>(size)), run, code.length + size);
}

// Afterwards at least 56 bits are available.
inline void HuffmanReader::Bits::refill() {
    std::uint64_t word = 0;
    std::memcpy(&word, next, sizeof word);
    if constexpr (std::endian::native == std::endian::little) {
        word = __builtin_bswap64(word);
    }
    held |= word >> count;
    next += (63 - count) >> 3;
    count |= 56;
}

// Copies the scan without stuffed zeros and restart markers, up to the first other marker.
bool HuffmanReader::collect(std::span<const std::byte> scan) {
    const auto* at = reinterpret_cast<const std::uint8_t*>(scan.data());
    const std::uint8_t* end = at + scan.size();
    if (data_.size() < scan.size() + kPadding) {
        data_.resize(scan.size() + kPadding);
    }
    std::uint8_t* out = data_.data();
    ends_.clear();
    ended_ = false;
    for (int restarts = 0;;) {
        const auto* mark = static_cast<const std::uint8_t*>(std::memchr(at, 0xff, static_cast<std::size_t>(end - at)));
        if (mark == nullptr || end - mark < 2) {
            return false;
        }
        const auto size = static_cast<std::size_t>(mark - at);
        std::memcpy(out, at, size);
        out += size;
        at = mark + 2;
        if (mark[1] == 0) {
            *out++ = 0xff;
            continue;
        }
        ends_.push_back(static_cast<std::size_t>(out - data_.data()));
        if (mark[1] == 0xd0 + restarts % 8 && interval_ != 0) {
            ++restarts;
            continue;
        }
        ended_ = mark[1] == 0xd9;
        std::memset(out, 0, kPadding);
        return true;
    }
}

bool HuffmanReader::open(const jpeg_decompress_struct& codec, const JpegFrame& frame, std::span<const std::byte> scan) {
    if (!is_baseline_scan(codec)) {
        return false;
    }
    for (int c = 0; c < frame.components; ++c) {
        const jpeg_component_info& info = *codec.cur_comp_info[c];
        if (info.dc_tbl_no > 1 || info.ac_tbl_no > 1 ||
            !dc_[info.dc_tbl_no].build(*codec.dc_huff_tbl_ptrs[info.dc_tbl_no], kMaxDcBits) ||
            !ac_[info.ac_tbl_no].build(*codec.ac_huff_tbl_ptrs[info.ac_tbl_no], 255)) {
            return false;
        }
        dc_of_[c] = info.dc_tbl_no;
        ac_of_[c] = info.ac_tbl_no;
    }
    frame_ = &frame;
    interval_ = codec.restart_interval;
    if (!collect(scan)) {
        return false;
    }
    std::size_t all = 0;
    int mcu_blocks = 0;
    for (int c = 0; c < frame.components; ++c) {
        const FrameComponent& comp = frame.component[JpegFrame::at(c)];
        starts_[c] = all;
        mcu_blocks += comp.h * comp.v;
        all += static_cast<std::size_t>(comp.v) * static_cast<std::size_t>(comp.blocks_wide);
    }
    if (frame.components > 1 && mcu_blocks > kMaxMcuBlocks) {
        return false;
    }
    blocks_.resize((all + 4) * kBlockSize * sizeof(std::int16_t));
    row_ = -1;
    segment_ = 0;
    start_segment();
    return true;
}

void HuffmanReader::start_segment() {
    if (segment_ >= ends_.size()) {
        throw HuffmanError{};
    }
    bits_ = {.held = 0, .count = 0, .next = data_.data() + (segment_ == 0 ? 0 : ends_[segment_ - 1])};
    std::fill_n(last_dc_, 3, 0);
    left_ = interval_;
}

// Fills `out`, which holds zeros, except for the DC. Returns the DC's difference from the previous block.
inline int HuffmanReader::read_block(Bits& shared, const HuffmanTable& dc, const HuffmanTable& ac, std::int16_t* out) {
    Bits bits = shared;  // a local copy, which the compiler keeps in registers
    bits.refill();
    const HuffmanTable::Symbol size = dc.symbol(bits.held);
    if (size.length == 0) {
        throw HuffmanError{};
    }
    bits.drop(size.length);
    int step = 0;
    if (size.symbol != 0) {
        step = value_of(static_cast<unsigned>(bits.held >> (64U - size.symbol)), size.symbol);
        bits.drop(size.symbol);
    }
    unsigned k = 1;
    const auto take = [&](HuffmanTable::Entry entry) {
        bits.drop(entry.length());
        k += entry.run();
        out[kNatural[k]] = entry.value();
        return ++k >= kBlockSize;
    };
    for (;;) {
        // 56 bits are enough for three table entries, or for two and one longer code.
        bits.refill();
        HuffmanTable::Entry entry = ac.entry(bits.held);
        if (!entry.empty()) {
            if (take(entry)) {
                break;
            }
            entry = ac.entry(bits.held);
            if (!entry.empty()) {
                if (take(entry)) {
                    break;
                }
                entry = ac.entry(bits.held);
            }
        }
        if (take(entry.empty() ? ac.long_entry(bits.held) : entry)) {
            break;
        }
    }
    shared = bits;
    if (k > kBlockSize && k <= kEnd) {  // a run beyond the block's end
        throw HuffmanError{};
    }
    return step;
}

// Throws if bits were read beyond the end of the segment; libjpeg then decides about the file.
void HuffmanReader::check_end(const Bits& bits) const {
    if (bits.next - bits.count / 8 > data_.data() + ends_[segment_]) {
        throw HuffmanError{};
    }
}

void HuffmanReader::next_row(bool keep) {
    alignas(64) std::int16_t unwanted[kBlockSize];
    const JpegFrame& frame = *frame_;
    auto* all = reinterpret_cast<std::int16_t*>(blocks_.data());
    Bits bits = bits_;
    for (int mcu = 0; mcu < frame.mcus_wide; ++mcu) {
        if (interval_ != 0 && left_ == 0) {
            check_end(bits);
            ++segment_;
            start_segment();
            bits = bits_;
        }
        --left_;
        for (int c = 0; c < frame.components; ++c) {
            const FrameComponent& comp = frame.component[JpegFrame::at(c)];
            std::int16_t* first = all + (starts_[c] + static_cast<std::size_t>(mcu * comp.h)) * kBlockSize;
            for (int v = 0; v < comp.v; ++v, first += comp.blocks_wide * kBlockSize) {
                for (int h = 0; h < comp.h; ++h) {
                    std::int16_t* out = keep ? first + h * kBlockSize : unwanted;
                    if (keep) {
                        std::memset(out, 0, kBlockSize * sizeof *out);
                    }
                    last_dc_[c] += read_block(bits, dc_[dc_of_[c]], ac_[ac_of_[c]], out);
                    out[0] = static_cast<std::int16_t>(last_dc_[c]);
                    if (out[0] != last_dc_[c] || bits.next > data_.data() + ends_[segment_] + sizeof(std::uint64_t)) {
                        throw HuffmanError{};
                    }
                }
            }
        }
    }
    check_end(bits);
    bits_ = bits;
    ++row_;
}

const std::int16_t* HuffmanReader::blocks(int component, int block_row, int first, int /*count*/) {
    const FrameComponent& comp = frame_->component[JpegFrame::at(component)];
    const int row = block_row / comp.v;
    if (row_ < row) {
        const auto start = std::chrono::steady_clock::now();
        while (row_ < row) {
            next_row(row_ + 1 == row);
        }
        time_ += std::chrono::steady_clock::now() - start;
    }
    const std::size_t block =
        starts_[component] + static_cast<std::size_t>(block_row % comp.v * comp.blocks_wide + first);
    return reinterpret_cast<const std::int16_t*>(blocks_.data()) + block * kBlockSize;
}

void HuffmanReader::finish() {
    if (row_ + 1 != frame_->mcus_high || segment_ + 1 != ends_.size() || !ended_) {
        throw HuffmanError{};
    }
}

}  // namespace stoker
