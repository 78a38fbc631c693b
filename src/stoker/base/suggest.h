// "did you mean": finds the known name, or the existing file, nearest to a mistyped one.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace stoker {

// The nearest of `names`, the first among equals. Empty if for every name more than a third of its characters would
// have to change. A swap of two neighbours counts as one change.
std::string nearest_name(std::string_view name, std::span<const std::string> names);

// `did you mean "batch_size"?`, or nothing if no name is near.
std::string nearest_name_hint(std::string_view name, std::span<const std::string> names);

// The existing path nearest to `path`, which does not exist: its first missing part is replaced by the nearest name in
// that folder. Empty if none is near.
std::string nearest_path(const std::filesystem::path& path);

// A hint for a path that does not exist: `did you mean "data/train"?`, or the first names in the folder if it would
// be, and then `otherwise`.
std::string missing_path_hint(const std::filesystem::path& path, const std::string& otherwise);

}  // namespace stoker
