// Filters are reversed from the last to the first. The size of the data between two filters is known, since besides
// deflate only the checksum changes it, by four bytes at the end.
#include "stoker/formats/hdf5/hdf5_info.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/io/deflate.h"
#include "stoker/io/gzip.h"

namespace stoker {
namespace {

constexpr std::uint64_t kChecksumBytes = 4;

[[noreturn]] void damaged(std::string expected, std::string got) {
    throw DataError({}, {.where = "hdf5 chunk", .expected = std::move(expected), .got = std::move(got)});
}

void check_size(std::span<const std::byte> bytes, std::uint64_t size) {
    if (bytes.size() != size) {
        damaged(fmt::format("{} bytes", size), fmt::format("{}", bytes.size()));
    }
}

Buffer inflate_chunk(std::span<const std::byte> stored, std::uint64_t size) {
    if (size / kMaxGzipRatio > stored.size() + 64) {
        damaged(fmt::format("{} bytes after inflating", size), fmt::format("{} before", stored.size()));
    }
    Buffer out(size);
    if (!inflate(stored, DeflateForm::zlib, out.bytes())) {
        damaged(fmt::format("{} bytes of sound zlib data", size), "damaged data or another size");
    }
    return out;
}

// Shuffle stores the first bytes of all elements, then the second bytes, and so on; an incomplete element stays at the
// end.
Buffer unshuffle(std::span<const std::byte> bytes, std::size_t item) {
    Buffer out(bytes.size());
    const std::size_t count = bytes.size() / item;
    for (std::size_t plane = 0; plane < item; ++plane) {
        const std::byte* from = bytes.data() + plane * count;
        std::byte* to = out.data() + plane;
        for (std::size_t i = 0; i < count; ++i) {
            to[i * item] = from[i];
        }
    }
    std::ranges::copy(bytes.subspan(count * item), out.data() + count * item);
    return out;
}

std::span<const std::byte> verify(std::span<const std::byte> bytes) {
    if (bytes.size() < kChecksumBytes) {
        damaged("a checksum", fmt::format("{} bytes", bytes.size()));
    }
    const std::span<const std::byte> content = bytes.first(bytes.size() - kChecksumBytes);
    std::uint32_t stored = 0;
    for (std::size_t i = 0; i < kChecksumBytes; ++i) {
        stored |= std::to_integer<std::uint32_t>(bytes[content.size() + i]) << (8 * i);
    }
    const std::uint32_t found = hdf5_fletcher32(content);
    // HDF5 before 1.6.3 swapped the bytes of both halves on some machines; the library accepts that too.
    const std::uint32_t swapped = (found & 0x00ff00ffU) << 8 | (found & 0xff00ff00U) >> 8;
    if (stored != found && stored != swapped) {
        damaged(fmt::format("a fletcher32 checksum of {:08x}", stored), fmt::format("{:08x}", found));
    }
    return content;
}

}  // namespace

void check_filters(const Hdf5Info& info, const std::string& path) {
    for (auto filter = info.filters.begin(); filter != info.filters.end(); ++filter) {
        const bool known =
            filter->id == H5Z_FILTER_DEFLATE || filter->id == H5Z_FILTER_SHUFFLE || filter->id == H5Z_FILTER_FLETCHER32;
        const bool twice =
            std::any_of(info.filters.begin(), filter, [&](const Hdf5Filter& other) { return other.id == filter->id; });
        if (!known || twice) {
            throw Unsupported(
                {.where = path,
                 .expected = fmt::format("{} with no filters but deflate (gzip), shuffle and "
                                         "fletcher32, each once",
                                         info.name),
                 .got = fmt::format("filter {}{}, number {}", filter->name.empty() ? "without a name" : filter->name,
                                    twice ? " twice" : "", filter->id),
                 .hint = "rewrite the file with h5repack -f GZIP=1"});
        }
    }
}

Buffer undo_filters(std::span<const Hdf5Filter> filters, std::uint32_t mask, std::span<const std::byte> stored,
                    std::uint64_t size) {
    const auto active = [&](std::size_t i) { return (mask >> i & 1U) == 0; };
    std::uint64_t before = size;  // size of the data before the current filter was applied
    for (std::size_t i = 0; i < filters.size(); ++i) {
        before += active(i) && filters[i].id == H5Z_FILTER_FLETCHER32 ? kChecksumBytes : 0;
    }
    Buffer held;
    std::span<const std::byte> bytes = stored;
    for (std::size_t i = filters.size(); i-- > 0;) {
        if (!active(i)) {
            continue;
        }
        if (filters[i].id == H5Z_FILTER_FLETCHER32) {
            bytes = verify(bytes);
            before -= kChecksumBytes;
            continue;
        }
        if (filters[i].id == H5Z_FILTER_SHUFFLE && (filters[i].first_value <= 1 || bytes.size() <= 1)) {
            continue;
        }
        held = filters[i].id == H5Z_FILTER_DEFLATE ? inflate_chunk(bytes, before)
                                                   : unshuffle(bytes, static_cast<std::size_t>(filters[i].first_value));
        bytes = held.bytes();
    }
    check_size(bytes, size);
    if (bytes.data() != held.data()) {
        Buffer plain(bytes.size());
        std::ranges::copy(bytes, plain.data());
        return plain;
    }
    held.resize(bytes.size());
    return held;
}

std::uint32_t hdf5_fletcher32(std::span<const std::byte> bytes) {
    constexpr std::size_t kWords = 360;  // the most that can be summed in 32 bits without overflow
    std::uint32_t sum1 = 0;
    std::uint32_t sum2 = 0;
    const auto fold = [](std::uint32_t sum) { return (sum & 0xffffU) + (sum >> 16); };
    while (bytes.size() >= 2) {
        const std::size_t words = std::min(bytes.size() / 2, kWords);
        for (std::size_t i = 0; i < words; ++i) {
            sum1 +=
                std::to_integer<std::uint32_t>(bytes[2 * i]) << 8 | std::to_integer<std::uint32_t>(bytes[2 * i + 1]);
            sum2 += sum1;
        }
        sum1 = fold(sum1);
        sum2 = fold(sum2);
        bytes = bytes.subspan(2 * words);
    }
    if (!bytes.empty()) {
        sum1 += std::to_integer<std::uint32_t>(bytes[0]) << 8;
        sum2 += sum1;
        sum1 = fold(sum1);
        sum2 = fold(sum2);
    }
    return fold(sum2) << 16 | fold(sum1);
}

}  // namespace stoker
