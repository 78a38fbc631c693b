// The files of a data set of Parquet or Arrow files: the names of a folder or a repository, and which of them are a
// split's.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/io/byte_file.h"

namespace stoker {

// x.parquet, x.arrow, and a pattern of them; a URL may have a query.
bool is_parquet_name(std::string_view name);
bool is_arrow_name(std::string_view name);

// The names in a folder or repository, relative to it, and their texts.
struct HubListing {
    std::vector<std::string> names;
    std::function<std::string(const std::string& name)> read_text;
};

// The files of a split, in the order of datasets.load_dataset: those that the card's `configs` names, else those of
// datasets' save_to_disk (state.json, dataset_dict.json), else .parquet or .arrow files with the split's name in their
// path, such as data/train-00000-of-00005.parquet. Without any name of a split, all files are the training split.
// Split::test is "test", else "validation", or with `validation` the other way round. Empty if there is none.
// Throws DataError for a card with several configurations and without a default one, and for damaged JSON.
std::vector<std::string> hub_split_files(const HubListing& listing, Split split, bool validation = false);

// True for a folder with such files, in it, in folders in it, or in snapshots of the Hub's cache.
bool is_hub_folder(const std::string& folder);

// Lists a folder, at most 5 levels deep; of the Hub's cache, the newest snapshot. `root` becomes the folder of the
// names.
HubListing list_hub_folder(const std::string& folder, std::string& root);

// True for a data set on the Hub, or a folder in it, without the name of a file: hf://datasets/ORG/NAME; and for a
// folder behind s3:// or gs://, whose name ends in a slash.
bool is_hub_repository(std::string_view name);

// Lists one of these; `folder` without the slash at its end.
HubListing list_hub_repository(const std::string& folder, const RemoteOptions& options);

// "train", "validation", "test" or empty: the split that a file's path names.
std::string_view split_of_name(std::string_view name);

}  // namespace stoker
