// Members of a tar archive (POSIX.1-2001): ustar headers, and a pax header before a member whose name does not fit one.
// Nothing in it but names and bytes: owners, times and modes are fixed, so the same samples give the same archive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "stoker/io/append_file.h"

namespace stoker {

// A member of the pieces, one after the other. `name`: UTF-8, not empty, without a NUL. Throws InvalidArgument for
// another, and for 8 GiB and more.
void append_tar_member(AppendFile& file, std::string_view name, std::span<const std::span<const std::byte>> pieces);

// What append_tar_member would append.
std::uint64_t tar_member_size(std::string_view name, std::uint64_t bytes);

// The two blocks of zeros that end an archive.
void append_tar_end(AppendFile& file);

}  // namespace stoker
