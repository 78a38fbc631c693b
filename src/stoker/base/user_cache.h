// Indices of data sets, which take long to make and can be made again, kept in the user's cache directory:
// $STOKER_CACHE, else $XDG_CACHE_HOME/stoker, else ~/.cache/stoker.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "stoker/base/buffer.h"

namespace stoker {

// Empty if neither these variables nor HOME are set.
std::filesystem::path user_cache_dir();

// The file that is stored under `kind` and `name`, for a class that reads and writes it; it may not exist.
// Empty without a cache directory. Removes old files as write_user_cache does, and notes that this one is used.
std::filesystem::path user_cache_file(std::string_view kind, std::string_view name);

// Returns the content stored under `kind` ("tar_index") and `name` (the data set's absolute path or URL) if it was
// written with the same `stamp`; empty if there is none, the stamp differs, or the file is damaged.
std::optional<Buffer> read_user_cache(std::string_view kind, std::string_view name, std::string_view stamp);

// Replaces the content stored under `kind` and `name`. Returns false if the directory cannot be written to: a cache
// must not make a run fail. A process's first write of a kind also removes files that were not used for 90 days, and
// the oldest above 100,000.
bool write_user_cache(std::string_view kind, std::string_view name, std::string_view stamp,
                      std::span<const std::byte> content);

}  // namespace stoker
