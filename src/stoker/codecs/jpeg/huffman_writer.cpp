// One function per layer: bits, values, blocks, MCUs.
#include "stoker/codecs/jpeg/huffman_writer.h"

#include <array>
#include <bit>
#include <cstdlib>

#include "stoker/base/error.h"

namespace stoker {
namespace {

struct Code {
    std::uint16_t bits = 0;
    std::uint8_t length = 0;  // 0: a symbol without a code
};

struct CodeTable {
    std::array<Code, 256> codes{};

    // T.81, annex C: codes of one length are consecutive numbers.
    explicit CodeTable(const JHUFF_TBL& table) {
        unsigned code = 0;
        std::size_t symbol = 0;
        for (unsigned length = 1; length <= 16; ++length, code <<= 1) {
            for (int i = 0; i < table.bits[length] && symbol < 256; ++i) {
                codes[table.huffval[symbol++]] = {static_cast<std::uint16_t>(code++),
                                                  static_cast<std::uint8_t>(length)};
            }
        }
    }
};

class ScanWriter {
  public:
    std::vector<std::byte> out;

    bool put(const CodeTable& table, unsigned symbol, int value, int value_bits) {
        const Code code = table.codes[symbol & 0xff];
        if (code.length == 0) {
            return false;
        }
        put_bits(code.bits, code.length);
        // Negative values are stored minus one, so that their first bit is 0.
        put_bits(static_cast<unsigned>(value < 0 ? value - 1 : value) & ((1U << value_bits) - 1), value_bits);
        return true;
    }

    // Pads the last byte with ones.
    void flush() {
        if (held_ > 0) {
            put_bits((1U << (8 - held_)) - 1, 8 - held_);
        }
    }

    void restart(int number) {
        flush();
        out.push_back(std::byte{0xff});
        out.push_back(static_cast<std::byte>(0xd0 + number % 8));
    }

  private:
    void put_bits(unsigned bits, int count) {
        for (int i = count - 1; i >= 0; --i) {
            byte_ = byte_ << 1 | (bits >> i & 1);
            if (++held_ == 8) {
                out.push_back(static_cast<std::byte>(byte_));
                if ((byte_ & 0xff) == 0xff) {
                    out.push_back(std::byte{0});
                }
                held_ = 0;
            }
        }
    }

    unsigned byte_ = 0;
    int held_ = 0;
};

int magnitude_bits(int value) {
    return std::bit_width(static_cast<unsigned>(std::abs(value)));
}

struct ComponentTables {
    CodeTable dc;
    CodeTable ac;
};

bool write_block(ScanWriter& writer, const ComponentTables& tables, const std::int16_t* block, int& last_dc) {
    const int step = block[0] - last_dc;
    last_dc = block[0];
    if (!writer.put(tables.dc, static_cast<unsigned>(magnitude_bits(step)), step, magnitude_bits(step))) {
        return false;
    }
    unsigned zeros = 0;
    for (std::size_t k = 1; k < kBlockSize; ++k) {
        const int value = block[kZigzag[k]];
        if (value == 0) {
            ++zeros;
            continue;
        }
        for (; zeros > 15; zeros -= 16) {
            if (!writer.put(tables.ac, 0xf0, 0, 0)) {
                return false;
            }
        }
        const int bits = magnitude_bits(value);
        if (bits > 15 || !writer.put(tables.ac, zeros << 4 | static_cast<unsigned>(bits), value, bits)) {
            return false;
        }
        zeros = 0;
    }
    return zeros == 0 || writer.put(tables.ac, 0, 0, 0);
}

}  // namespace

bool is_baseline_scan(const jpeg_decompress_struct& codec) {
    if (codec.progressive_mode != FALSE || codec.arith_code != FALSE || codec.data_precision != 8 ||
        codec.comps_in_scan != codec.num_components) {
        return false;
    }
    for (int c = 0; c < codec.comps_in_scan; ++c) {
        const jpeg_component_info& info = *codec.cur_comp_info[c];
        if (info.component_index != c || info.dc_tbl_no >= NUM_HUFF_TBLS || info.ac_tbl_no >= NUM_HUFF_TBLS ||
            codec.dc_huff_tbl_ptrs[info.dc_tbl_no] == nullptr || codec.ac_huff_tbl_ptrs[info.ac_tbl_no] == nullptr) {
            return false;
        }
    }
    return true;
}

HuffmanTables scan_huffman_tables(const jpeg_decompress_struct& codec) {
    HuffmanTables tables{};
    for (int c = 0; c < codec.comps_in_scan; ++c) {
        tables.dc[c] = *codec.dc_huff_tbl_ptrs[codec.cur_comp_info[c]->dc_tbl_no];
        tables.ac[c] = *codec.ac_huff_tbl_ptrs[codec.cur_comp_info[c]->ac_tbl_no];
    }
    return tables;
}

HuffmanTables standard_huffman_tables() {
    JpegGuard guard;
    jpeg_compress_struct codec{};
    codec.err = guard.manager();
    HuffmanTables tables{};
    const bool made = guard.run([&codec, &tables] {
        jpeg_create_compress(&codec);
        codec.input_components = 3;
        codec.in_color_space = JCS_YCbCr;
        jpeg_set_defaults(&codec);
        for (int c = 0; c < 3; ++c) {
            tables.dc[c] = *codec.dc_huff_tbl_ptrs[c == 0 ? 0 : 1];
            tables.ac[c] = *codec.ac_huff_tbl_ptrs[c == 0 ? 0 : 1];
        }
    });
    jpeg_destroy_compress(&codec);
    if (!made) {
        throw IoError({.where = "host memory", .expected = "memory for a JPEG's tables", .got = "none"});
    }
    return tables;
}

std::vector<std::byte> write_huffman_scan(const JpegBlocks& jpeg, const HuffmanTables& huffman,
                                          unsigned restart_interval) {
    const JpegFrame& frame = jpeg.frame;
    std::vector<ComponentTables> tables;
    for (int c = 0; c < frame.components; ++c) {
        tables.push_back({CodeTable(huffman.dc[c]), CodeTable(huffman.ac[c])});
    }
    ScanWriter writer;
    std::array<int, 3> last_dc{};
    int restarts = 0;
    const int mcus = frame.mcus_wide * frame.mcus_high;
    for (int mcu = 0; mcu < mcus; ++mcu) {
        if (restart_interval != 0 && mcu != 0 && static_cast<unsigned>(mcu) % restart_interval == 0) {
            writer.restart(restarts++);
            last_dc = {};
        }
        for (int c = 0; c < frame.components; ++c) {
            const FrameComponent& comp = frame.component[JpegFrame::at(c)];
            for (int i = 0; i < comp.h * comp.v; ++i) {
                const std::ptrdiff_t y = mcu / frame.mcus_wide * comp.v + i / comp.h;
                const std::ptrdiff_t x = mcu % frame.mcus_wide * comp.h + i % comp.h;
                const std::int16_t* block = jpeg.blocks[c].data() + (y * comp.blocks_wide + x) * kBlockSize;
                if (!write_block(writer, tables[JpegFrame::at(c)], block, last_dc[JpegFrame::at(c)])) {
                    return {};
                }
            }
        }
    }
    writer.flush();
    return writer.out;
}

}  // namespace stoker
