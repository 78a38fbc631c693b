// Zstandard frames in memory, with libzstd. A caller learns the size that a frame states before it allocates memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace stoker {

// A block of at most 128 KiB takes at least four bytes of a frame, so none expands by more than this factor.
inline constexpr std::uint64_t kMaxZstdRatio = 32768;

// True if the first four bytes are 28 b5 2f fd. The file's name does not matter.
bool is_zstd(std::span<const std::byte> bytes);

// The size that a frame states for its content in its first kZstdHead bytes, which may be wrong; empty if it states
// none.
inline constexpr std::size_t kZstdHead = 18;
std::optional<std::uint64_t> zstd_stated_size(std::span<const std::byte> head);

// The size of the frame's content. Throws DataError, without a path, for other bytes, and for a frame that states no
// size or one that it cannot have.
std::uint64_t zstd_content_size(std::span<const std::byte> frame);

// Fills `out` with the content. Throws DataError, without a path, for a damaged frame and for content of another size.
void unzstd(std::span<const std::byte> frame, std::span<std::byte> out);

}  // namespace stoker
