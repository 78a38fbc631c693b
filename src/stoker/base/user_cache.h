// What was learned about a data set and can be learned again, such as an index, kept in the user's cache directory:
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

// Empty where neither variable nor a home is set.
std::filesystem::path user_cache_dir();

// The content kept under `kind` ("tar_index") and `name` (the data set's absolute path or URL) where it was written
// with the same `stamp`; empty where it was not, or is damaged.
std::optional<Buffer> read_user_cache(std::string_view kind, std::string_view name, std::string_view stamp);

// Replaces the content kept under `kind` and `name`. False where the directory cannot be written to: a cache is no
// reason to fail. A process that first writes of a kind removes what was not used for 90 days, and the oldest above
// 100,000.
bool write_user_cache(std::string_view kind, std::string_view name, std::string_view stamp,
                      std::span<const std::byte> content);

}  // namespace stoker
