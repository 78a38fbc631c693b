// Protobuf's wire format as tf.train.Example uses it: tags, numbers and nested messages. The bytes come from memory or
// piece by piece from a file, so that an index skips images without reading them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <span>
#include <string>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/io/byte_file.h"

namespace stoker {

// Kinds of a value on the wire.
inline constexpr std::uint64_t kWireVarint = 0;
inline constexpr std::uint64_t kWireFixed64 = 1;
inline constexpr std::uint64_t kWireBytes = 2;
inline constexpr std::uint64_t kWireFixed32 = 5;

// A field's number and the kind of its value.
struct WireTag {
    std::uint64_t number = 0;
    std::uint64_t wire = 0;

    bool operator==(const WireTag&) const = default;
};

[[noreturn]] inline void refuse_wire(std::string expected, std::string got) {
    throw DataError({}, {.where = "tf.train.Example", .expected = std::move(expected), .got = std::move(got)});
}

// A record in memory. `view` returns a part of it.
struct MemoryBytes {
    std::span<const std::byte> all;

    std::span<const std::byte> view(const ByteRange& range) const {
        return all.subspan(static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.size));
    }
};

// Reads one message from front to back. `Bytes::view` returns the bytes of a range, valid until its next call. Throws
// DataError for bytes that are not a message; the callers know the place.
template <typename Bytes>
class WireReader {
  public:
    // `message` lies within `bytes`, which must outlive the reader.
    WireReader(Bytes& bytes, const ByteRange& message)
        : bytes_(bytes), at_(message.offset), end_(message.offset + message.size) {}

    bool done() const { return at_ == end_; }
    std::uint64_t at() const { return at_; }

    std::uint64_t varint() {
        constexpr std::uint64_t kLongest = 10;  // of 64 bits
        std::uint64_t value = 0;
        unsigned shift = 0;
        for (const std::byte byte : bytes_.view({at_, std::min(kLongest, end_ - at_)})) {
            ++at_;
            const auto bits = std::to_integer<std::uint64_t>(byte);
            value |= (bits & 0x7f) << shift;
            if (bits < 0x80) {
                return value;
            }
            shift += 7;
        }
        refuse_wire("a number of at most ten bytes", shift == 70 ? "a longer one" : "the end of the message");
    }

    WireTag tag() {
        const std::uint64_t tag = varint();
        if (tag >> 3 == 0 || tag >> 32 != 0) {
            refuse_wire("the number of a field", fmt::format("{}", tag >> 3));
        }
        return {.number = tag >> 3, .wire = tag & 7};
    }

    // The place of the next `size` bytes, which are skipped.
    ByteRange take(std::uint64_t size) {
        if (size > end_ - at_) {
            refuse_wire(fmt::format("{} more bytes", size), fmt::format("{}", end_ - at_));
        }
        const ByteRange range{at_, size};
        at_ += size;
        return range;
    }
    ByteRange take_bytes() { return take(varint()); }

    // Skips the value behind a tag.
    void skip(const WireTag& tag) {
        switch (tag.wire) {
            case kWireVarint:
                varint();
                break;
            case kWireFixed64:
                take(8);
                break;
            case kWireBytes:
                take_bytes();
                break;
            case kWireFixed32:
                take(4);
                break;
            default:
                refuse_wire("a field of wire type 0, 1, 2 or 5", fmt::format("{}", tag.wire));
        }
    }

  private:
    Bytes& bytes_;
    std::uint64_t at_;
    std::uint64_t end_;
};

// Longer names of features are damage.
inline constexpr std::uint64_t kMaxFeatureName = 4096;

// Calls visit(name, range) for each feature of an Example, in stored order: a later one of the same name replaces
// it. The range is that of its message, of no bytes for a feature without a value. Throws as WireReader.
template <typename Bytes, typename Visit>
void walk_features(Bytes& bytes, const ByteRange& record, const Visit& visit) {
    constexpr WireTag kFirst{.number = 1, .wire = kWireBytes};  // Example.features, Features.feature, the entry's key
    constexpr WireTag kValue{.number = 2, .wire = kWireBytes};
    WireReader example(bytes, record);
    while (!example.done()) {
        if (const WireTag tag = example.tag(); tag != kFirst) {
            example.skip(tag);
            continue;
        }
        WireReader features(bytes, example.take_bytes());
        while (!features.done()) {
            if (const WireTag tag = features.tag(); tag != kFirst) {
                features.skip(tag);
                continue;
            }
            const ByteRange range = features.take_bytes();
            WireReader entry(bytes, range);
            ByteRange key{range.offset, 0};
            ByteRange value{range.offset, 0};
            int values = 0;
            while (!entry.done()) {
                const WireTag tag = entry.tag();
                if (tag == kFirst) {
                    key = entry.take_bytes();
                } else if (tag == kValue) {
                    value = entry.take_bytes();
                    ++values;
                } else {
                    entry.skip(tag);
                }
            }
            if (values > 1) {  // protobuf would join them; TensorFlow refuses them as well
                refuse_wire("one value for each name", fmt::format("{}", values));
            }
            if (key.size > kMaxFeatureName) {
                refuse_wire(fmt::format("names of features of at most {} bytes", kMaxFeatureName),
                            fmt::format("{}", key.size));
            }
            visit(as_text(bytes.view(key)), value);
        }
    }
}

}  // namespace stoker
