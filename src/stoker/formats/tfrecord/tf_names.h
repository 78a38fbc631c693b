// Which names are those of TFRecord shards, and which shards of a folder make a split.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/io/byte_file.h"

namespace stoker {

// True for a file's name such as x.tfrecord, x.tfrecords, x.tfrec, the same with .gz, x.tfrecord-00000-of-00010,
// x-00000-of-00010.tfrecord, and x-00000-of-00010 if x lacks an ending. Patterns count as the names that they stand
// for.
bool is_tfrecord_name(std::string_view name);

// The same for the last part of a path, a pattern or a URL. Does not access the files.
bool is_tfrecord_spec(const std::string& spec);

// True for a folder with such files and without subfolders of images.
bool is_tfrecord_folder(const std::string& path);

// The name of the set that a shard belongs to: "mnist-train" for mnist-train.tfrecord-00000-of-00001 and for
// mnist-train-00000-of-00001.
std::string tfrecord_set_name(std::string_view file);

struct TfRecordShards {
    std::vector<std::string> names;     // sorted as shard_names does
    std::vector<std::string> left_out;  // those of other splits than train and test
};

// The shards of `spec` (see shard_names). If the sets of a folder are called train and val, validation, dev or test,
// possibly behind other words ("mnist-train"), those of the split: val comes before validation, and so on.
// Throws as shard_names.
TfRecordShards tfrecord_shards(const std::string& spec, Split split, const RemoteOptions& remote = {});

// True for a folder that has both splits.
bool tfrecord_has_splits(const std::string& spec);

}  // namespace stoker
