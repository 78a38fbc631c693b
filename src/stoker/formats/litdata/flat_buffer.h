// Reads tables of FlatBuffers, in which Arrow keeps its metadata. Every access is checked against the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace stoker {

// The elements of a vector: `count` of them from `begin` on.
struct FlatVector {
    std::size_t begin = 0;
    std::size_t count = 0;
};

// A table. Members are found by their numbers in the schema. All functions throw DataError for places outside of the
// bytes.
class FlatTable {
  public:
    // The root of a buffer.
    static FlatTable root(std::span<const std::byte> bytes);

    template <typename Number>
    Number number(std::size_t member, Number missing) const {
        const std::optional<std::size_t> at = place(member);
        return at ? read<Number>(*at) : missing;
    }
    // Empty without one.
    std::optional<FlatTable> table(std::size_t member) const;
    std::string_view text(std::size_t member) const;
    // `item`: the bytes of an element.
    FlatVector vector(std::size_t member, std::size_t item) const;
    FlatTable table_in(const FlatVector& tables, std::size_t at) const;

    template <typename Number>
    Number read(std::size_t at) const {
        Number number;
        require(at, sizeof number);
        std::memcpy(&number, bytes_.data() + at, sizeof number);
        return number;
    }

  private:
    FlatTable(std::span<const std::byte> bytes, std::size_t at) : bytes_(bytes), at_(at) {}
    std::optional<std::size_t> place(std::size_t member) const;
    std::size_t target(std::size_t at) const;
    void require(std::size_t at, std::size_t size) const;

    std::span<const std::byte> bytes_;
    std::size_t at_;
};

}  // namespace stoker
