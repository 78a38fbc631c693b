// The layout; integers are little-endian. Every bound is checked once, while reading.
//   0  magic dc 'D' 'C' 'T', version, flags, colour, orientation
//   8  uint16 width, uint16 height, components, group_rows, tables, 0
//  16  for each component: h, v, its table, 0
//      for each table: 64 uint16, or uint8 with kSmall, natural order
//      uint32 body size, uint32 head size, uint32 tail size
//      for each chunk: its size, uint16 or uint32
//      body, head, tail; then zeros, so that at least 64 bytes follow the body
#include "stoker/codecs/dct/dct_record.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/codecs/byte_order.h"
#include "stoker/codecs/dct/segment_kernels.h"
#include "stoker/codecs/region.h"

namespace stoker {
namespace {

class Reader {
  public:
    explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    std::span<const std::byte> take(std::size_t size) {
        if (size > bytes_.size() - at_) {
            throw DataError({.path = {}, .offset = static_cast<std::int64_t>(bytes_.size())},
                            {.where = "dct", .expected = "a complete record", .got = "a truncated record"});
        }
        at_ += size;
        return bytes_.subspan(at_ - size, size);
    }
    std::uint32_t number(std::size_t size) { return load_le(take(size), 0, size); }
    std::uint8_t byte() { return static_cast<std::uint8_t>(number(1)); }
    std::size_t left() const { return bytes_.size() - at_; }

    [[noreturn]] void refuse(const char* expected, const std::string& got) const {
        throw DataError({.path = {}, .offset = static_cast<std::int64_t>(at_)},
                        {.where = "dct", .expected = expected, .got = got});
    }

  private:
    std::span<const std::byte> bytes_;
    std::size_t at_ = 0;
};

void put(std::vector<std::byte>& out, std::uint32_t value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
        out.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
}

void read_frame(Reader& reader, DctHeader& header, int tables) {
    JpegFrame& frame = header.frame;
    int table_of[3] = {};
    for (int c = 0; c < frame.components; ++c) {
        FrameComponent& component = frame.component[JpegFrame::at(c)];
        component.h = reader.byte();
        component.v = reader.byte();
        table_of[c] = reader.byte();
        if (component.h < 1 || component.h > 4 || component.v < 1 || component.v > 4 || table_of[c] >= tables) {
            reader.refuse("sampling factors of 1 to 4 and an existing table",
                          fmt::format("{} x {}, table {} of {}", component.h, component.v, table_of[c], tables));
        }
        if (reader.byte() != 0) {
            reader.refuse("0 in a reserved byte", "another number");
        }
    }
    frame.compute_layout();
    if (!frame.has_integer_ratios()) {
        reader.refuse("sampling factors with integer ratios", "other factors");
    }
    const std::size_t width = (header.flags & DctFlags::kSmall) != 0 ? 1 : 2;
    for (int t = 0; t < tables; ++t) {
        const auto bytes = reader.take(width * kBlockSize);
        for (int c = 0; c < frame.components; ++c) {
            if (table_of[c] != t) {
                continue;
            }
            for (std::size_t i = 0; i < kBlockSize; ++i) {
                frame.component[JpegFrame::at(c)].quant[i] =
                    static_cast<std::uint16_t>(load_le(bytes, width * i, width));
            }
        }
    }
}

void read_ends(Reader& reader, DctHeader& header, std::uint32_t body) {
    const std::size_t width = (header.flags & DctFlags::kWide) != 0 ? 4 : 2;
    const auto chunks = static_cast<std::size_t>(header.chunks());
    const auto sizes = reader.take(chunks * width);
    header.ends.resize(chunks);
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < chunks; ++i) {
        end += load_le(sizes, width * i, width);
        header.ends[i] = static_cast<std::uint32_t>(std::min<std::uint64_t>(end, body));
    }
    if (end != body) {
        reader.refuse("chunk sizes that sum to the size of the body",
                      fmt::format("{} bytes in a body of {}", end, body));
    }
}

}  // namespace

int DctHeader::segments_per_mcu_row() const {
    int count = 0;
    for (int c = 0; c < frame.components; ++c) {
        count += frame.component[JpegFrame::at(c)].v;
    }
    return count;
}

int DctHeader::chunks() const {
    if (grouped()) {
        return (frame.mcus_high + group_rows - 1) / group_rows;
    }
    return frame.mcus_high * segments_per_mcu_row();
}

std::span<const std::byte> DctHeader::chunk(int i) const {
    const auto at = static_cast<std::size_t>(i);
    const std::uint32_t begin = i == 0 ? 0 : ends[at - 1];
    return body.subspan(begin, ends[at] - begin);
}

void read_dct_header(std::span<const std::byte> record, DctHeader& header) {
    Reader reader(record);
    const auto magic = reader.take(sizeof kDctMagic);
    if (std::memcmp(magic.data(), kDctMagic, sizeof kDctMagic) != 0) {
        reader.refuse("a dct record", "other bytes");
    }
    if (const int version = reader.byte(); version != kDctVersion) {
        reader.refuse("a dct record of version 1", fmt::format("version {}", version));
    }
    header.flags = reader.byte();
    const int color = reader.byte();
    header.orientation = reader.byte();
    JpegFrame& frame = header.frame;
    frame.width = static_cast<int>(reader.number(2));
    frame.height = static_cast<int>(reader.number(2));
    check_image_size("dct", frame.height, frame.width);
    frame.components = reader.byte();
    header.group_rows = reader.byte();
    const int tables = reader.byte();
    const int reserved = reader.byte();
    frame.color = static_cast<FrameColor>(color);
    const bool grey = frame.color == FrameColor::grey;
    if ((header.flags & ~DctFlags::kAll) != 0 || color > 2 || header.orientation < 1 || header.orientation > 8 ||
        frame.components != (grey ? 1 : 3) || header.group_rows < 1 || header.group_rows > kMaxGroupRows ||
        (!header.grouped() && header.group_rows != 1) || (header.flags & DctFlags::kGroups) == DctFlags::kGroups ||
        tables < 1 || tables > 3 || reserved != 0) {
        reader.refuse("a consistent header", fmt::format("flags {}, colour {}, {} components, {} tables", header.flags,
                                                         color, frame.components, tables));
    }
    read_frame(reader, header, tables);
    const std::uint32_t body = reader.number(4);
    const std::uint32_t head = reader.number(4);
    const std::uint32_t tail = reader.number(4);
    if (tail != 0 && (header.flags & DctFlags::kExactFile) == 0) {
        reader.refuse("no tail without the exact-file flag", fmt::to_string(tail));
    }
    read_ends(reader, header, body);
    header.body = reader.take(body);
    if (reader.left() < kSegmentPadding) {
        reader.refuse("64 bytes after the coefficients", fmt::to_string(reader.left()));
    }
    header.head = reader.take(head);
    header.tail = reader.take(tail);
}

std::vector<std::byte> write_dct_record(const DctHeader& header) {
    const JpegFrame& frame = header.frame;
    std::vector<const FrameComponent*> tables;
    std::uint32_t table_of[3] = {};
    for (int c = 0; c < frame.components; ++c) {
        const FrameComponent& comp = frame.component[JpegFrame::at(c)];
        const auto same = std::find_if(tables.begin(), tables.end(),
                                       [&comp](const FrameComponent* other) { return other->quant == comp.quant; });
        table_of[c] = static_cast<std::uint32_t>(same - tables.begin());
        if (same == tables.end()) {
            tables.push_back(&comp);
        }
    }
    std::uint32_t largest = 0;
    for (int i = 0; i < header.chunks(); ++i) {
        largest = std::max(largest, static_cast<std::uint32_t>(header.chunk(i).size()));
    }
    const bool wide = largest > 0xffff;
    std::vector<std::byte> out;
    for (const unsigned char byte : kDctMagic) {
        put(out, byte, 1);
    }
    put(out, kDctVersion, 1);
    put(out, header.flags | (wide ? DctFlags::kWide : 0U), 1);
    put(out, static_cast<std::uint32_t>(frame.color), 1);
    put(out, header.orientation, 1);
    put(out, static_cast<std::uint32_t>(frame.width), 2);
    put(out, static_cast<std::uint32_t>(frame.height), 2);
    put(out, static_cast<std::uint32_t>(frame.components), 1);
    put(out, header.group_rows, 1);
    put(out, static_cast<std::uint32_t>(tables.size()), 1);
    put(out, 0, 1);
    for (int c = 0; c < frame.components; ++c) {
        put(out, static_cast<std::uint32_t>(frame.component[JpegFrame::at(c)].h), 1);
        put(out, static_cast<std::uint32_t>(frame.component[JpegFrame::at(c)].v), 1);
        put(out, table_of[c], 1);
        put(out, 0, 1);
    }
    for (const FrameComponent* table : tables) {
        for (const std::uint16_t step : table->quant) {
            put(out, step, (header.flags & DctFlags::kSmall) != 0 ? 1 : 2);
        }
    }
    put(out, static_cast<std::uint32_t>(header.body.size()), 4);
    put(out, static_cast<std::uint32_t>(header.head.size()), 4);
    put(out, static_cast<std::uint32_t>(header.tail.size()), 4);
    for (int i = 0; i < header.chunks(); ++i) {
        put(out, static_cast<std::uint32_t>(header.chunk(i).size()), wide ? 4 : 2);
    }
    out.insert(out.end(), header.body.begin(), header.body.end());
    out.insert(out.end(), header.head.begin(), header.head.end());
    out.insert(out.end(), header.tail.begin(), header.tail.end());
    const std::size_t behind = header.head.size() + header.tail.size();
    out.resize(out.size() + (behind < kSegmentPadding ? kSegmentPadding - behind : 0));
    return out;
}

}  // namespace stoker
