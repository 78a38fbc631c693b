// Writes the records of the zip format: local headers, the central directory, the zip64 end records.
#include "stoker/formats/arrays/npz_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/array.h"

namespace stoker {
namespace {

constexpr std::uint64_t kIn64 = 0xffffffff;  // the value is in the zip64 record
constexpr std::uint64_t kIn64Short = 0xffff;
constexpr std::uint64_t kVersion = 45;
constexpr std::uint64_t kFirstDay = 0x21;       // 1980-01-01, the earliest date
constexpr std::uint64_t kRegular = 0x81a40000;  // a regular file with mode 0644
constexpr std::uint64_t kCrcOffset = 14;        // in the local header

// Appends little-endian fields.
class Record {
  public:
    Record& u16(std::uint64_t value) { return put(value, 2); }
    Record& u32(std::uint64_t value) { return put(value, 4); }
    Record& u64(std::uint64_t value) { return put(value, 8); }
    Record& text(std::string_view value) {
        bytes_.insert(bytes_.end(), as_bytes(value).begin(), as_bytes(value).end());
        return *this;
    }
    std::span<const std::byte> bytes() const { return bytes_; }

  private:
    Record& put(std::uint64_t value, int size) {
        for (int i = 0; i < size; ++i) {
            bytes_.push_back(static_cast<std::byte>(value >> 8 * i));
        }
        return *this;
    }

    std::vector<std::byte> bytes_;
};

std::uint32_t checksum(std::uint32_t crc, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const std::size_t size = std::min<std::size_t>(bytes.size(), std::numeric_limits<uInt>::max());
        crc = static_cast<std::uint32_t>(
            ::crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(size)));
        bytes = bytes.subspan(size);
    }
    return crc;
}

bool is_continuation(char c) {
    return (static_cast<std::uint8_t>(c) & 0xc0) == 0x80;
}

}  // namespace

std::size_t text_length(std::string_view utf8) {
    return static_cast<std::size_t>(std::ranges::count_if(utf8, [](char c) { return !is_continuation(c); }));
}

std::string_view npy_descr(DType dtype) {
    switch (dtype) {
        case DType::uint8:
            return "|u1";
        case DType::uint16:
            return "<u2";
        case DType::int16:
            return "<i2";
        case DType::int32:
            return "<i4";
        case DType::int64:
            return "<i8";
        case DType::float16:
            return "<f2";
        case DType::float32:
            return "<f4";
        case DType::float64:
            return "<f8";
        case DType::bfloat16:
            break;
    }
    return "";
}

std::string npy_header(std::string_view descr, const Shape& shape) {
    constexpr std::size_t kPrefix = 10;
    constexpr std::size_t kBoundary = 64;
    std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                                   fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
    text.append((kBoundary - (kPrefix + text.size() + 1) % kBoundary) % kBoundary, ' ');
    text += '\n';
    std::string header("\x93NUMPY\x01\x00", 8);
    header += static_cast<char>(text.size() & 0xff);
    header += static_cast<char>(text.size() >> 8);
    return header + text;
}

void NpzWriter::begin(std::string_view name, std::string_view descr, int item_size, const Shape& shape) {
    const std::string header = npy_header(descr, shape);
    std::uint64_t bytes = static_cast<std::uint64_t>(item_size);
    for (const std::int64_t side : shape) {
        bytes *= static_cast<std::uint64_t>(side);
    }
    members_.push_back({.name = fmt::format("{}.npy", name), .offset = file_.size(), .size = header.size() + bytes});
    const Member& member = members_.back();
    Record record;
    record.text("PK\x03\x04").u16(kVersion).u16(0).u16(0).u16(0).u16(kFirstDay).u32(0).u32(kIn64).u32(kIn64);
    record.u16(member.name.size()).u16(20).text(member.name);
    record.u16(1).u16(16).u64(member.size).u64(member.size);
    file_.append(record.bytes());
    written_ = 0;
    append(as_bytes(header));
}

void NpzWriter::append(std::span<const std::byte> elements) {
    Member& member = members_.back();
    member.crc = checksum(member.crc, elements);
    written_ += elements.size();
    file_.append(elements);
}

void NpzWriter::begin_texts(std::string_view name, std::size_t width, std::int64_t count) {
    width_ = width;
    begin(name, fmt::format("<U{}", width), static_cast<int>(4 * width), {count});
}

void NpzWriter::append_text(std::string_view utf8) {
    text_.clear();
    for (const char c : utf8) {
        const auto byte = static_cast<std::uint8_t>(c);
        if (is_continuation(c) && !text_.empty()) {
            text_.back() = text_.back() << 6 | (byte & 0x3fU);
        } else {
            text_.push_back(byte < 0x80 ? byte : byte < 0xe0 ? byte & 0x1fU : byte < 0xf0 ? byte & 0x0fU : byte & 7U);
        }
    }
    text_.resize(width_, 0);
    append(std::as_bytes(std::span(text_)));
}

void NpzWriter::end() {
    const Member& member = members_.back();
    if (written_ != member.size) {
        throw InternalError({.where = member.name,
                             .expected = fmt::format("{} bytes", member.size),
                             .got = fmt::format("{}", written_)});
    }
    file_.replace(member.offset + kCrcOffset, Record().u32(member.crc).bytes());
}

void NpzWriter::finish() {
    const std::uint64_t begin = file_.size();
    for (const Member& member : members_) {
        Record record;
        record.text("PK\x01\x02").u16(3 << 8 | kVersion).u16(kVersion).u16(0).u16(0).u16(0).u16(kFirstDay);
        record.u32(member.crc).u32(kIn64).u32(kIn64).u16(member.name.size()).u16(28).u16(0).u16(0).u16(0);
        record.u32(kRegular).u32(kIn64).text(member.name);
        record.u16(1).u16(24).u64(member.size).u64(member.size).u64(member.offset);
        file_.append(record.bytes());
    }
    const std::uint64_t end = file_.size();
    Record record;
    record.text("PK\x06\x06").u64(44).u16(3 << 8 | kVersion).u16(kVersion).u32(0).u32(0);
    record.u64(members_.size()).u64(members_.size()).u64(end - begin).u64(begin);
    record.text("PK\x06\x07").u32(0).u64(end).u32(1);
    record.text("PK\x05\x06").u16(0).u16(0).u16(kIn64Short).u16(kIn64Short).u32(kIn64).u32(kIn64).u16(0);
    file_.append(record.bytes());
}

}  // namespace stoker
