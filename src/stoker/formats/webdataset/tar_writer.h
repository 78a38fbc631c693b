// Writes a tar archive (POSIX.1-2001): ustar headers, and a pax header before a member whose name does not fit into
// one. Owners, times and modes are fixed, so the same samples give the same archive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "stoker/io/append_file.h"

namespace stoker {

// Appends a member whose content is the concatenation of `pieces`. `name`: UTF-8, not empty, without a NUL. Throws
// InvalidArgument for another name and for 8 GiB or more.
void append_tar_member(AppendFile& file, std::string_view name, std::span<const std::span<const std::byte>> pieces);

// The number of bytes that append_tar_member appends.
std::uint64_t tar_member_size(std::string_view name, std::uint64_t bytes);

// Appends the two blocks of zeros that end an archive.
void append_tar_end(AppendFile& file);

}  // namespace stoker
