// The names of a WebDataset's classes, which its shards do not hold: a text file beside them, a class a line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace stoker {

// Labels beyond this are not given their numbers as names.
inline constexpr std::int32_t kMaxNumberedClasses = 1 << 20;

// What the files may be called, the one that counts first: for dir/train-000000.tar dir/train-000000-classes.txt,
// dir/train-classes.txt, dir/classes.txt. The writer takes the first for a single archive, the second for shards.
std::vector<std::filesystem::path> class_name_files(const std::filesystem::path& first_shard);

// Empty where there is no such file. Throws DataError where it has fewer lines than `largest_label` needs, or an empty
// one between others.
std::vector<std::string> read_class_names(const std::filesystem::path& first_shard, std::int64_t largest_label);

}  // namespace stoker
