// Bounds are compared by differences, since a sum of two numbers from the file could overflow.
#include "stoker/formats/hdf5/hdf5_bytes.h"

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/formats/image_kind.h"

namespace stoker {

Hdf5Bytes::Hdf5Bytes(const std::string& path)
    : path_(path), file_(path), map_(file_), map_or_read_(map_.bytes().size()) {}

std::span<const std::byte> Hdf5Bytes::view(std::uint64_t offset, std::uint64_t size, std::string_view what) const {
    const std::span<const std::byte> all = map_.bytes();
    if (offset > all.size() || size > all.size() - offset) {
        damaged(offset, fmt::format("{} bytes of {}", size, what), fmt::format("a file of {} bytes", all.size()));
    }
    return all.subspan(offset, size);
}

std::span<const std::byte> Hdf5Bytes::get(std::uint64_t offset, std::uint64_t size, std::string_view what,
                                          Buffer& storage) const {
    return map_or_read_.get(view(offset, size, what), file_, offset, storage);
}

std::uint64_t Hdf5Bytes::offset_of(std::uint64_t address, std::string_view what) const {
    const std::uint64_t base = superblock_.base;
    if (address >= size() || base >= size() - address) {
        damaged(base, fmt::format("the address of {} within {} bytes", what, size()), fmt::format("{}", address));
    }
    return address + base;
}

bool Hdf5Bytes::is_undefined(std::uint64_t address) const {
    return address == ~std::uint64_t{0} >> (64 - 8 * superblock_.address_bytes);
}

std::string Hdf5Bytes::shown(std::uint64_t offset, std::uint64_t size) const {
    const std::span<const std::byte> rest = map_.bytes().subspan(std::min(offset, this->size()));
    return describe_bytes(rest.first(std::min<std::uint64_t>(size, rest.size())));
}

void Hdf5Bytes::damaged(std::uint64_t offset, std::string expected, std::string got) const {
    throw DataError({.path = path_, .offset = static_cast<std::int64_t>(offset)},
                    {.where = "hdf5", .expected = std::move(expected), .got = std::move(got)});
}

std::uint64_t little_endian(std::span<const std::byte> bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) {
        value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
    }
    return value;
}

Hdf5Cursor::Hdf5Cursor(const Hdf5Bytes& file, std::uint64_t offset, std::uint64_t size, std::string_view what)
    : file_(file), offset_(offset), what_(what) {
    rest_ = file.view(offset, std::min(size, file.size() - std::min(offset, file.size())), what);
}

std::span<const std::byte> Hdf5Cursor::take(std::size_t bytes) {
    if (bytes > rest_.size()) {
        file_.damaged(offset_, fmt::format("{} more bytes of {}", bytes, what_), fmt::format("{}", rest_.size()));
    }
    const std::span<const std::byte> taken = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    offset_ += bytes;
    return taken;
}

std::string_view Hdf5Cursor::text(std::size_t bytes) {
    const std::span<const std::byte> taken = take(bytes);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
}

}  // namespace stoker
