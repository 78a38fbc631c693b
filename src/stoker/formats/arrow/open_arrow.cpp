#include "stoker/formats/arrow/open_arrow.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/arrow/arrow_batches.h"
#include "stoker/formats/arrow/arrow_dataset.h"
#include "stoker/formats/arrow/hub_files.h"
#include "stoker/formats/arrow/parquet_rows.h"
#include "stoker/formats/shard_names.h"

namespace stoker {
namespace {

// The files, and the folder of files that columns name.
struct Files {
    std::vector<std::string> names;
    std::string folder;
};

std::string without_slash(const std::string& folder) {
    return folder.substr(0, folder.find_last_not_of('/') + 1);
}

// A folder with the files of one split is that split, whichever is wanted.
Files find_files(const std::string& data, Split split, const OpenOptions& options) {
    const RemoteOptions& remote = options.remote;
    Files files;
    const bool repository = is_hub_repository(data);
    if (!repository && !is_folder(data)) {
        files.names = shard_names(data, remote);
        files.folder = is_remote(data) ? "" : std::filesystem::path(files.names.front()).parent_path().string();
        files.folder = files.folder.empty() && !is_remote(data) ? "." : files.folder;
        return files;
    }
    const std::string root = without_slash(data);
    const HubListing listing = repository ? list_hub_repository(root, remote) : list_hub_folder(data, files.folder);
    std::vector<std::string> found = hub_split_files(listing, split, options.validation);
    if (found.empty()) {
        found = hub_split_files(listing, split == Split::train ? Split::test : Split::train);
    }
    for (const std::string& name : found) {
        files.names.push_back((repository ? root : files.folder) + "/" + name);
    }
    if (files.names.empty()) {
        throw DataError({.path = shown_name(data)},
                        {.where = "folder",
                         .expected = ".parquet or .arrow files of a split train, validation or test",
                         .got = fmt::format("{} files, none of these", listing.names.size()),
                         .hint = "give a pattern of its files, such as folder/part-*.parquet"});
    }
    return files;
}

}  // namespace

bool is_arrow_path(const std::string& data) {
    if (is_parquet_name(data) || is_arrow_name(data)) {
        return !is_folder(data) || is_hub_folder(data);
    }
    return is_hub_repository(data) || (is_folder(data) && is_hub_folder(data));
}

std::unique_ptr<Dataset> open_arrow(const std::string& data, Split split, const OpenOptions& options) {
    Files files = find_files(data, split, options);
    const bool parquet = is_parquet_name(files.names.front());
    if (std::ranges::any_of(files.names, [&](const std::string& name) { return is_parquet_name(name) != parquet; })) {
        throw DataError({.path = shown_name(data)},
                        {.where = "files", .expected = "Parquet files, or Arrow files", .got = "some of both"});
    }
    std::unique_ptr<ArrowRows> rows;
    if (parquet) {
        rows = std::make_unique<ParquetRows>(
            shown_name(data), std::move(files.names),
            [remote = options.remote](const std::string& name) { return open_byte_file(name, remote); });
    } else if (is_remote(files.names.front())) {
        throw Unsupported({.where = shown_name(data),
                           .expected = "Parquet files behind a URL",
                           .got = "Arrow files",
                           .hint = "download them, or save the data with to_parquet"});
    } else {
        rows = std::make_unique<ArrowBatches>(data, files.names);
    }
    return std::make_unique<ArrowDataset>(std::move(rows), shown_name(data), files.folder, options.fields,
                                          parquet ? "parquet" : "arrow");
}

bool arrow_has_splits(const std::string& data) {
    std::string root;
    if (!is_hub_repository(data) && !is_folder(data)) {
        return false;
    }
    const HubListing listing =
        is_hub_repository(data) ? list_hub_repository(without_slash(data), {}) : list_hub_folder(data, root);
    return !hub_split_files(listing, Split::train).empty() && !hub_split_files(listing, Split::test).empty();
}

std::unique_ptr<Dataset> open_arrow_stream(ArrowArrayStream* stream, const std::string& folder,
                                           const FieldNames& fields) {
    if (stream->release == nullptr) {
        throw InvalidArgument(
            {.where = "table", .expected = "a stream that was not used before", .got = "one that was released"});
    }
    ArrowOwned<ArrowArrayStream> owned;
    *owned.get() = std::exchange(*stream, {});
    return std::make_unique<ArrowDataset>(std::make_unique<ArrowBatches>(std::move(owned)), "a table in memory", folder,
                                          fields, "arrow");
}

}  // namespace stoker
