// Class names that a format does not hold itself: a text file next to WebDataset shards, or the numbers of the classes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace stoker {

// The possible paths of the file with one class name on each line, in order of preference. For dir/train-000000.tar:
// dir/train-000000-classes.txt, dir/train-classes.txt, dir/classes.txt. The writer uses the first for a single archive
// and the second for shards.
std::vector<std::filesystem::path> class_name_files(const std::filesystem::path& first_shard);

// The text of a file of class names. Throws DataError for one of more than 64 MiB.
std::string class_text(const std::filesystem::path& file);

// The names in the first of these files that exists; empty if none does. Throws DataError if it has fewer lines
// than `largest_label` needs, or an empty line between others.
std::vector<std::string> read_class_names(const std::filesystem::path& first_shard, std::int64_t largest_label);
std::vector<std::string> read_class_names(std::span<const std::filesystem::path> files, std::int64_t largest_label);

// Labels beyond this are ids of another kind, or damage: they get no names.
inline constexpr std::int64_t kMaxNumberedClasses = std::int64_t{1} << 20;

// "0" to count - 1; empty if there would be more than kMaxNumberedClasses.
std::vector<std::string> numbered_classes(std::int64_t count);

// "0" to the largest of the labels; empty if that is kMaxNumberedClasses or more.
std::vector<std::string> numbered_classes_of(std::span<const std::int64_t> labels);

}  // namespace stoker
