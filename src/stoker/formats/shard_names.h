// Expands one specification into the names of a data set's shards: braces as in bash, glob patterns, folders.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stoker/io/byte_file.h"

namespace stoker {

// A specification of more names is refused before any is made.
inline constexpr std::size_t kMaxShards = 1'000'000;

// "train-{000..127}.tar", "{a,b,c}.tar", or several braces; the last varies fastest. A range counts upwards. If either
// end begins with a zero, all numbers are padded with zeros to the longer end's width. Throws
// InvalidArgument for invalid braces: a descending range, a single alternative, nested or unmatched braces.
std::vector<std::string> expand_braces(std::string_view spec);

// The first of these names, without making the others.
std::string first_of_braces(std::string_view spec);

// Also expands "*", "?" and "[...]" in local names, and "*" and "**" in s3://, gs:// and hf:// names
// (remote_pattern.h); matches are sorted bytewise. A local folder stands for the .tar files in it, sorted, without
// hidden ones. An existing path is never expanded. Throws InvalidArgument, and IoError if a pattern matches nothing or
// a folder cannot be read.
std::vector<std::string> shard_names(const std::string& spec, const RemoteOptions& remote = {});

// A URL without its query; other names unchanged. Keys behind s3://, gs:// and hf:// may hold '?' and '#'.
std::string_view without_query(std::string_view spec);

// Adds its position ("#3") to each name that occurs more than once: keys of samples begin with names of shards.
void make_unique(std::vector<std::string>& names);

// True if the name is that of tar archives, plain or compressed (.tar.gz, .tgz, ...). Does not access the files, and
// ignores a URL's query.
bool is_tar_spec(const std::string& spec);

// True for a folder with .tar files and without subfolders of images.
bool is_tar_folder(const std::string& path);

// The same for shards of another format, by the names of files, and their paths, sorted bytewise, without hidden ones.
// shards_in throws IoError for a folder that cannot be read.
bool is_shard_folder(const std::string& path, bool (*is_shard)(std::string_view name));
std::vector<std::string> shards_in(const std::string& folder, bool (*is_shard)(std::string_view name));

}  // namespace stoker
