// Reads and writes IDX. The header must agree with the file's size: exactly for a plain file; for gzip first within the
// greatest compression ratio, then exactly while inflating.
#include "stoker/formats/idx_cifar/idx_file.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/io/gzip.h"

namespace stoker {
namespace {

constexpr std::size_t kMaxDimensions = 4;
constexpr std::size_t kMaxHeader = 4 + 4 * kMaxDimensions;
constexpr std::uint8_t kUint8 = 0x08;
constexpr std::array<std::uint8_t, 5> kOtherTypes = {0x09, 0x0B, 0x0C, 0x0D, 0x0E};  // int8 to float64

struct Header {
    Shape shape;
    std::size_t header_bytes = 0;
    std::size_t elements = 0;

    std::size_t file_bytes() const { return header_bytes + elements; }
    std::string describe() const {
        return fmt::format("{} bytes, a header of {} and {} elements", file_bytes(), header_bytes,
                           fmt::join(shape, " x "));
    }
};

[[noreturn]] void bad(std::size_t offset, std::string expected, std::string got) {
    throw DataError({.path = "", .offset = static_cast<std::int64_t>(offset)},
                    {.where = "idx", .expected = std::move(expected), .got = std::move(got)});
}

std::uint32_t big_endian(const std::byte* data) {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
        value = value << 8 | std::to_integer<std::uint32_t>(data[i]);
    }
    return value;
}

// The number of dimensions, from the four bytes 0, 0, type, dimensions.
std::size_t parse_magic(const std::byte* data, const std::string& path) {
    const std::uint32_t magic = big_endian(data);
    const auto type = static_cast<std::uint8_t>(magic >> 8);
    const std::size_t dimensions = magic & 0xFF;
    const bool known = type == kUint8 || std::ranges::count(kOtherTypes, type) > 0;
    if (magic >> 16 != 0 || !known || dimensions < 1 || dimensions > kMaxDimensions) {
        bad(0, "an IDX file, 00 00 08 and 1 to 4 dimensions", fmt::format("{:08x}", magic));
    }
    if (type != kUint8) {
        throw Unsupported({.where = path,
                           .expected = "uint8 elements (type 08)",
                           .got = fmt::format("type {:02x}", type),
                           .hint = "convert the data to uint8"});
    }
    return dimensions;
}

// `read` fills its argument and returns the number of bytes read, as GzipReader::read does.
Header read_header(const std::string& path, const std::function<std::size_t(std::span<std::byte>)>& read) {
    std::array<std::byte, kMaxHeader> head{};
    if (const std::size_t got = read(std::span(head).first(4)); got < 4) {
        bad(got, "4 bytes of IDX magic", fmt::format("{}", got));
    }
    const std::size_t dimensions = parse_magic(head.data(), path);
    Header header{.shape = {}, .header_bytes = 4 + 4 * dimensions, .elements = 1};
    if (const std::size_t got = read(std::span(head).subspan(4, 4 * dimensions)); got < 4 * dimensions) {
        bad(4 + got, fmt::format("{} bytes of header", header.header_bytes), fmt::format("{}", 4 + got));
    }
    for (std::size_t i = 0; i < dimensions; ++i) {
        header.shape.push_back(big_endian(head.data() + 4 + 4 * i));
    }
    constexpr std::size_t kLimit = std::size_t{1} << 62;
    for (const std::int64_t size : header.shape) {
        if (__builtin_mul_overflow(header.elements, static_cast<std::size_t>(size), &header.elements) ||
            header.elements > kLimit) {
            bad(4, "sizes that fit memory", fmt::format("{}", fmt::join(header.shape, " x ")));
        }
    }
    return header;
}

}  // namespace

IdxFile::IdxFile(const std::filesystem::path& path)
    : file_(path), file_bytes_(static_cast<std::int64_t>(file_.bytes().size())) {
    with_place({.path = path.string()}, [&] {
        if (is_gzip(file_.bytes())) {
            inflate(path.string());
        } else {
            map_plain(path.string());
        }
    });
}

void IdxFile::map_plain(const std::string& path) {
    const auto file = file_.bytes();
    std::size_t at = 0;
    const Header header = read_header(path, [&](std::span<std::byte> out) {
        const std::size_t count = std::min(out.size(), file.size() - at);
        std::copy_n(file.data() + at, count, out.data());
        at += count;
        return count;
    });
    if (file.size() != header.file_bytes()) {
        bad(std::min(file.size(), header.file_bytes()), header.describe(), fmt::format("{} bytes", file.size()));
    }
    shape_ = header.shape;
    bytes_ = file.subspan(header.header_bytes);
}

void IdxFile::inflate(const std::string& path) {
    const std::size_t compressed = file_.bytes().size();
    GzipReader reader(file_.bytes());
    const Header header = read_header(path, [&](std::span<std::byte> out) { return reader.read(out); });
    if (header.elements / kMaxGzipRatio > compressed) {
        bad(4, fmt::format("a size that {} bytes of gzip can hold", compressed), header.describe());
    }
    require_memory(header.elements, path);
    inflated_.resize(header.elements);
    const std::size_t got = header.header_bytes + reader.read(inflated_.bytes());
    std::byte extra{};
    const bool longer = reader.read(std::span(&extra, 1)) > 0;  // also makes the reader verify the checksum
    if (got != header.file_bytes() || longer || reader.truncated()) {
        bad(static_cast<std::size_t>(reader.offset()), header.describe() + " after inflating",
            fmt::format("{} bytes{}", got,
                        longer               ? " and more"
                        : reader.truncated() ? ", then the gzip stream ends too early"
                                             : ""));
    }
    shape_ = header.shape;
    bytes_ = inflated_.bytes();
    file_ = MappedFile();
}

void write_idx(const std::filesystem::path& path, const TensorView& tensor) {
    const auto fits = [](std::int64_t size) { return size >= 0 && size <= std::numeric_limits<std::uint32_t>::max(); };
    if (tensor.dtype != DType::uint8 || tensor.shape.empty() || tensor.shape.size() > kMaxDimensions ||
        !std::ranges::all_of(tensor.shape, fits)) {
        throw InvalidArgument(
            {.where = path.string(),
             .expected = "uint8 elements of 1 to 4 dimensions, each below 2^32",
             .got = fmt::format("{} elements, {}", dtype_name(tensor.dtype), fmt::join(tensor.shape, " x "))});
    }
    std::vector<std::byte> header = {std::byte{0}, std::byte{0}, std::byte{kUint8}, std::byte(tensor.shape.size())};
    for (const std::int64_t size : tensor.shape) {
        for (int shift = 24; shift >= 0; shift -= 8) {
            header.push_back(static_cast<std::byte>(size >> shift));
        }
    }
    const std::array<std::span<const std::byte>, 2> pieces = {header, std::span(tensor.data, tensor.bytes())};
    if (path.extension() == ".gz") {
        const Buffer compressed = gzip(pieces);
        const std::span<const std::byte> bytes = compressed.bytes();
        write_file(path, std::span(&bytes, 1));
    } else {
        write_file(path, pieces);
    }
}

}  // namespace stoker
