// A collection of the global heap is "GCOL", a version and its size, then objects: a header of 16 bytes (index,
// reference count, size) and the content, padded to 8 bytes. Object 0 is the free space at the end.
#include "stoker/formats/hdf5/hdf5_bytes.h"

#include <fmt/format.h>

namespace stoker {
namespace {

constexpr const char* kHeap = "a heap collection";
constexpr const char* kObject = "a heap object";

std::uint64_t up_to_8(std::uint64_t size) {
    return (size + 7) / 8 * 8;
}

// The first `length` bytes of object `index` in the collection at `address`.
std::span<const std::byte> read_heap_object(const Hdf5Bytes& file, std::uint64_t address, std::uint64_t index,
                                            std::uint64_t length, Buffer& storage) {
    const auto length_bytes = static_cast<std::uint64_t>(file.superblock().length_bytes);
    const std::uint64_t object_header = 8 + up_to_8(length_bytes);
    const std::uint64_t begin = file.offset_of(address, kHeap);
    Hdf5Cursor prefix(file, begin, object_header, kHeap);
    if (prefix.text(4) != "GCOL" || prefix.number(1) != 1) {
        file.damaged(begin, "a heap collection of version 1", file.shown(begin, 5));
    }
    prefix.skip(3);
    const std::uint64_t size = prefix.length();
    file.view(begin, size, kHeap);
    std::uint64_t at = object_header;
    while (size >= object_header && at <= size - object_header) {
        Hdf5Cursor cursor(file, begin + at, object_header, kObject);
        const std::uint64_t found = cursor.number(2);
        cursor.skip(6);
        const std::uint64_t object_size = cursor.length();
        if (found == 0) {
            break;
        }
        if (object_size > size - at - object_header) {
            file.damaged(begin + at, "a heap object within its collection", fmt::format("{} bytes", object_size));
        }
        if (found == index) {
            if (length > object_size) {
                file.damaged(begin + at, fmt::format("a heap object of {} bytes", length),
                             fmt::format("{}", object_size));
            }
            return file.get(begin + at + object_header, length, kObject, storage);
        }
        at += object_header + up_to_8(object_size);
    }
    file.damaged(begin, fmt::format("object {} in a heap collection", index), "none");
}

}  // namespace

std::span<const std::byte> read_sequence(const Hdf5Bytes& file, std::span<const std::byte> record, Buffer& storage) {
    const auto address_bytes = static_cast<std::size_t>(file.superblock().address_bytes);
    const std::uint64_t length = little_endian(record.first(4));
    const std::uint64_t address = little_endian(record.subspan(4, address_bytes));
    const std::uint64_t object = little_endian(record.subspan(4 + address_bytes, 4));
    if (length == 0 || address == 0) {
        return {};  // was never written
    }
    return read_heap_object(file, address, object, length, storage);
}

}  // namespace stoker
