// The boxes of HEIF files: a size, a type of four letters, content. Damaged ones are left out: libheif refuses them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace stoker {

struct FileBox {
    std::string_view type;
    std::span<const std::byte> content;
};

std::string_view text_of(std::span<const std::byte> bytes, std::size_t at, std::size_t size);

inline constexpr std::size_t kMostBoxes = 10'000;

// The boxes one after the other, up to a damaged one or kMostBoxes.
std::vector<FileBox> boxes_in(std::span<const std::byte> bytes);

// The content of the first box of this type; empty without one. `skip`: bytes before it, as of a full box.
std::span<const std::byte> find_box(std::span<const std::byte> bytes, std::string_view type, std::size_t skip = 0);

// Big-endian numbers one after the other, 0 behind the end.
class Numbers {
  public:
    explicit Numbers(std::span<const std::byte> bytes) : bytes_(bytes) {}
    // A number of up to 8 bytes.
    std::uint64_t take(std::size_t size);
    bool at_end() const { return bytes_.empty(); }
    // False after a number behind the end.
    bool complete() const { return complete_; }

  private:
    std::span<const std::byte> bytes_;
    bool complete_ = true;
};

}  // namespace stoker
