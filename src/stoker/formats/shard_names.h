// The names of a data set's shards from one specification: braces as the shell has them, patterns, folders.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stoker {

// More names than these are refused, before any is made.
inline constexpr std::size_t kMaxShards = 1'000'000;

// "train-{000..127}.tar", "{a,b,c}.tar", several braces, the last one running fastest. A range counts upwards, and all
// its numbers are as long as the longer end where either end begins with a zero. Throws InvalidArgument for braces
// that mean nothing: a range that runs backwards, one alternative, braces within braces, one without the other.
std::vector<std::string> expand_braces(std::string_view spec);

// The first of these names, without making the others.
std::string first_of_braces(std::string_view spec);

// Local names may also hold "*", "?" and "[...]"; what a pattern finds is sorted bytewise. A folder stands for the
// .tar files in it, also sorted, hidden ones left out. A path that exists is taken as it stands, whatever it holds.
// Throws InvalidArgument, IoError where nothing fits a pattern or a folder cannot be read.
std::vector<std::string> shard_names(const std::string& spec);

// By its name a tar archive, or several, or one that is packed (.tar.gz, .tgz, ...): whether there is any is not looked
// at. A URL's query is passed over.
bool is_tar_spec(const std::string& spec);

// A folder with .tar files, and no folder of images in it.
bool is_tar_folder(const std::string& path);

}  // namespace stoker
