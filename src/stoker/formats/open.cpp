// The table of formats. synth:digits is recognised by its scheme, a folder by its content, a file by its name.
#include "stoker/formats/open.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "stoker/base/ascii.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/map_damage.h"
#include "stoker/base/memory_limit.h"
#include "stoker/base/parse_number.h"
#include "stoker/base/suggest.h"
#include "stoker/formats/arrays/array_dataset.h"
#include "stoker/formats/arrays/array_file.h"
#include "stoker/formats/arrow/open_arrow.h"
#include "stoker/formats/coco/coco_dataset.h"
#include "stoker/formats/folder/image_folder.h"
#include "stoker/formats/hdf5/hdf5.h"
#include "stoker/formats/idx_cifar/cifar.h"
#include "stoker/formats/idx_cifar/idx.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/index_json.h"
#include "stoker/formats/litdata/litdata.h"
#include "stoker/formats/lmdb/lmdb.h"
#include "stoker/formats/mds/mds.h"
#include "stoker/formats/paired/paired_folder.h"
#include "stoker/formats/shard_names.h"
#include "stoker/formats/stk/stk.h"
#include "stoker/formats/stk/stk_manifest.h"
#include "stoker/formats/synth/synth_digits.h"
#include "stoker/formats/table/table_dataset.h"
#include "stoker/formats/tfrecord/tfrecord.h"
#include "stoker/formats/tokens/packed_documents.h"
#include "stoker/formats/tokens/token_dataset.h"
#include "stoker/formats/webdataset/webdataset.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSynthScheme = "synth:";
constexpr std::string_view kSynthDigits = "synth:digits";
constexpr const char* kReadable =
    "a data set: a folder with one subfolder of images for each class, IDX or CIFAR files, labels.csv, images with "
    "masks, COCO's files, .npy, .npz, .safetensors, .pt, .h5, .lmdb, .tar, .tfrecord, .parquet, .arrow, .stk, .bin, "
    "index.json of MDS or LitData, or "
    "synth:digits";
constexpr const char* kHint = "docs/data.md describes each format";

struct SynthOptions {
    std::int64_t count = kSynthDigitsTrain;  // of the training split
    std::uint64_t seed = 0;
};

template <typename Number>
Number parse_option(const std::string& data, std::string_view name, std::string_view text, Number smallest) {
    const auto value = parse_number<Number>(text);
    if (!value || *value < smallest) {
        throw InvalidArgument({.where = data,
                               .expected = fmt::format("{} to be an integer of at least {}", name, smallest),
                               .got = fmt::format("\"{}\"", text)});
    }
    return *value;
}

// Parses "synth:digits", optionally followed by "?count=N&seed=S" in any order.
SynthOptions parse_synth(const std::string& data) {
    SynthOptions options;
    std::string_view rest = std::string_view(data).substr(kSynthDigits.size());
    while (!rest.empty()) {
        rest.remove_prefix(1);  // '?' or '&'
        const std::string_view pair = rest.substr(0, rest.find('&'));
        rest.remove_prefix(pair.size());
        const std::size_t equals = pair.find('=');
        const std::string_view name = pair.substr(0, equals);
        const std::string_view value = equals < pair.size() ? pair.substr(equals + 1) : "";
        if (name == "count") {
            options.count = parse_option<std::int64_t>(data, name, value, 1);
        } else if (name == "seed") {
            options.seed = parse_option<std::uint64_t>(data, name, value, 0);
        } else {
            throw InvalidArgument({.where = data,
                                   .expected = "the parameters count and seed, as in synth:digits?count=1000&seed=7",
                                   .got = fmt::format("\"{}\"", pair)});
        }
    }
    return options;
}

bool is_synth_digits(std::string_view data) {
    return data == kSynthDigits || data.starts_with("synth:digits?");
}

std::unique_ptr<Dataset> open_synth(const std::string& data, Split split, const OpenOptions& /*options*/) {
    if (!is_synth_digits(data)) {
        throw InvalidArgument({.where = "data", .expected = "synth:digits", .got = fmt::format("\"{}\"", data)});
    }
    const SynthOptions options = parse_synth(data);
    const std::int64_t count = split == Split::train ? options.count : std::max<std::int64_t>(options.count / 6, 1);
    return make_synth_digits(split, count, options.seed);
}

bool may_be_image_folder(const fs::path& directory) {
    std::error_code error;
    std::error_code unknown;  // an entry whose type cannot be read is not a folder
    for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (!is_hidden_name(name) && (entry->is_directory(unknown) || is_image_name(name))) {
            return true;
        }
    }
    if (error) {
        throw errno_error(directory.string(), "a readable folder", error.value());
    }
    return false;
}

std::unique_ptr<Dataset> open_image_folder(const std::string& data, Split /*split*/, const OpenOptions& options) {
    return std::make_unique<ImageFolder>(data, options.fields.clips);
}

// MDS or LitData, by the content of their index.
std::unique_ptr<Dataset> open_index(const std::string& data, Split split, const OpenOptions& options) {
    const auto open = [remote = options.remote](const std::string& name) { return open_byte_file(name, remote); };
    const auto found = find_index(data, split);  // empty if it was removed since
    const std::string place = is_remote(data) ? index_url(data) : found ? found->path : data + "/index.json";
    const nlohmann::json index = read_index(*open(place));
    const IndexKind kind = with_place({.path = shown_name(place)}, [&] { return index_kind(index); });
    return kind == IndexKind::mds ? open_mds(place, index, options.fields, open)
                                  : open_litdata(place, index, options.fields, open, options.context);
}

// Files that users commonly give instead of a data set, recognised by the ends of their names.
struct Mistake {
    std::vector<std::string_view> ends;
    const char* kind;
    const char* advice;
};

// Null for other files.
const Mistake* mistake_of(const fs::path& path);

// One line of the table. `splits` is null for formats that never have two splits.
struct Format {
    bool (*matches)(const std::string& data);
    std::unique_ptr<Dataset> (*open)(const std::string& data, Split split, const OpenOptions& options);
    bool (*splits)(const std::string& data);
};

template <typename Kind>
std::unique_ptr<Dataset> open_as(const std::string& data, Split split, const OpenOptions& options) {
    return std::make_unique<Kind>(data, split, options.fields);
}

// True for a folder of shards unless it is another data set: archives may be next to the files that were unpacked from
// them.
bool is_alone(const std::string& folder, bool (*is_shards)(const std::string& folder)) {
    return is_shards(folder) && !is_table_path(folder) && !is_coco_path(folder) && !is_paired_folder(folder);
}

bool always(const std::string& /*data*/) {
    return true;
}

// The first entry that matches opens the data, so the order matters.
constexpr Format kDatasetFormats[] = {
    {.matches = [](const std::string& data) { return data.starts_with(kSynthScheme); },
     .open = open_synth,
     .splits = [](const std::string& data) { return is_synth_digits(data); }},
    {.matches = [](const std::string& data) { return is_stk_url(data) || (is_folder(data) && holds_stk(data)); },
     .open = [](const std::string& data, Split, const OpenOptions& options) -> std::unique_ptr<Dataset> {
         return is_stk_url(data) ? std::make_unique<StkDataset>(data, options.remote, options.fields.more)
                                 : std::make_unique<StkDataset>(data, options.fields.more);
     },
     .splits = nullptr},
    {.matches = [](const std::string& data) { return holds_lmdb(data); },
     .open = [](const std::string& data, Split split, const OpenOptions& options) -> std::unique_ptr<Dataset> {
         return std::make_unique<LmdbDataset>(data, options.fields, split);
     },
     .splits = nullptr},
    {.matches = [](const std::string& data) { return is_folder(data) && holds_idx(data); },
     .open = [](const std::string& data, Split split, const OpenOptions&) -> std::unique_ptr<Dataset> {
         const IdxPaths paths = find_idx(data, split);
         return std::make_unique<IdxDataset>(paths.images, paths.labels, split);
     },
     .splits = always},
    {.matches = [](const std::string& data) { return find_index(data, Split::train).has_value(); },
     .open = open_index,
     .splits =
         [](const std::string& data) {
             const auto found = find_index(data, Split::train);
             return found && found->split;
         }},
    {.matches =
         [](const std::string& data) { return is_folder(data) ? is_alone(data, is_tar_folder) : is_tar_spec(data); },
     .open = [](const std::string& data, Split, const OpenOptions& options) -> std::unique_ptr<Dataset> {
         return std::make_unique<WebDataset>(data, options);
     },
     .splits = nullptr},
    {.matches =
         [](const std::string& data) {
             return is_folder(data) ? is_alone(data, is_tfrecord_folder) : is_tfrecord_spec(data);
         },
     .open = [](const std::string& data, Split split, const OpenOptions& options) -> std::unique_ptr<Dataset> {
         return std::make_unique<TfRecordDataset>(data, split, options);
     },
     .splits = tfrecord_has_splits},
    {.matches =
         [](const std::string& data) {
             return is_token_path(data) && (is_folder(data) || mistake_of(data) == nullptr);
         },
     .open = [](const std::string& data, Split split, const OpenOptions& options) -> std::unique_ptr<Dataset> {
         return std::make_unique<TokenDataset>(data, split, options.context, options.fields);
     },
     .splits = tokens_have_splits},
    {.matches = is_array_path, .open = open_as<ArrayDataset>, .splits = arrays_have_splits},
    {.matches = [](const std::string& data) { return is_folder(data) && holds_cifar(data); },
     .open = open_as<CifarDataset>,
     .splits = always},
    {.matches = is_table_path,
     .open = [](const std::string& data, Split, const OpenOptions& options) -> std::unique_ptr<Dataset> {
         return std::make_unique<TableDataset>(data, options.fields);
     },
     .splits = nullptr},
    {.matches = is_coco_path, .open = open_as<CocoDataset>, .splits = coco_has_splits},
    {.matches = is_arrow_path, .open = open_arrow, .splits = arrow_has_splits},
    {.matches = is_paired_folder,
     .open = open_as<PairedFolder>,
     .splits = [](const std::string& data) { return paired_folder_has_splits(data); }},
    {.matches = [](const std::string& data) { return is_folder(data) && may_be_image_folder(data); },
     .open = open_image_folder,
     .splits = nullptr},
    {.matches = [](const std::string& data) { return is_file(data) && is_hdf5_name(data); },
     .open = open_as<Hdf5Dataset>,
     .splits = hdf5_has_splits},
    {.matches = [](const std::string& data) { return may_be_index_url(data); }, .open = open_index, .splits = nullptr},
};

const Format* format_of(const std::string& data) {
    const auto* const found =
        std::ranges::find_if(kDatasetFormats, [&](const Format& format) { return format.matches(data); });
    return found == std::end(kDatasetFormats) ? nullptr : found;
}

const Mistake* mistake_of(const fs::path& path) {
    static const std::vector<Mistake> kMistakes = {
        {{"ubyte", "ubyte.gz", "_batch", "_batch.bin", "_batch_1", "_batch_1.bin"},
         "one file of a data set",
         "give the folder that holds it"},
        {{std::begin(kImageEndings), std::end(kImageEndings)},
         "one image",
         "give the folder that has a subfolder of images for each class"},
        {{".svg", ".psd", ".exr"},
         "an image of an unsupported type",
         "convert such images to .png or .jpg, and put them into a subfolder for each class"},
        {{".zip", ".rar", ".7z", ".tgz", ".gz", ".bz2", ".xz", ".zst"}, "an archive", "unpack it and give the folder"},
        {{".mp4", ".avi", ".mov", ".mkv", ".webm", ".mpg"},
         "a video",
         "give the folder that has a subfolder of videos for each class"},
        {{".csv"}, "a table", "give its path, or name it labels.csv"},
        {{".tsv", ".jsonl", ".xlsx"}, "a table", "save it as .csv: a path of an image and its class in a row"},
        {{".json"}, "JSON", "give its path if it has COCO's annotations"},
        {{".toml"}, "a recipe", "give the path in its data.train"},
        {{".stk"}, "a file", "an stk data set is a folder: give the one that holds stk.json"},
    };
    const std::string name = lower_case(path.filename().string());
    const auto found = std::ranges::find_if(kMistakes, [&](const Mistake& mistake) {
        return std::ranges::any_of(mistake.ends, [&](std::string_view end) { return name.ends_with(end); });
    });
    return found == kMistakes.end() ? nullptr : &*found;
}

// The first name in a folder, hidden ones left out; empty if there is none.
std::string first_file(const std::string& folder) {
    std::error_code error;
    std::string first;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (!is_hidden_name(name)) {
            first = first.empty() ? name : std::min(first, name);
        }
    }
    return first;
}

[[noreturn]] void refuse_file(const std::string& data) {
    if (const Mistake* mistake = mistake_of(data)) {
        throw Unsupported({.where = data, .expected = "a data set", .got = mistake->kind, .hint = mistake->advice});
    }
    throw Unsupported({.where = data, .expected = kReadable, .got = "a file of another kind", .hint = kHint});
}

[[noreturn]] void refuse_folder(const std::string& data) {
    const std::string file = first_file(data);
    const Mistake* mistake = mistake_of(file);
    throw DataError(
        {.path = data},
        {.where = "data",
         .expected = kReadable,
         .got = file.empty() ? "an empty folder" : fmt::format("a folder without any of these, but with {}", file),
         .hint = mistake == nullptr ? kHint : mistake->advice});
}

[[noreturn]] void refuse(const std::string& data) {
    if (is_remote(data)) {
        throw Unsupported({.where = "data",
                           .expected =
                               "an stk data set, shards of WebDataset, TFRecord, MDS or LitData, or Parquet, behind "
                               "a URL: x.stk, x.tar, x.tfrecord, a folder with index.json, x.parquet",
                           .got = fmt::format("\"{}\"", shown_name(data)),
                           .hint = kHint});
    }
    std::error_code error;
    const fs::file_status status = fs::status(data, error);
    if (!fs::exists(status)) {
        throw IoError(
            {.where = data.empty() ? "data" : data,
             .expected = "a data set",
             .got = error && error != std::errc::no_such_file_or_directory
                        ? fmt::format("a path that cannot be read: {}", errno_text(error.value()))
                        : "a path that does not exist",
             .hint = missing_path_hint(data, "give a path, a URL or synth:digits; docs/data.md lists all formats")});
    }
    if (!fs::is_directory(status)) {
        refuse_file(data);
    }
    refuse_folder(data);
}

// With a context, documents of any length become rows of it.
std::unique_ptr<Dataset> in_rows(std::unique_ptr<Dataset> dataset, std::int64_t context) {
    const auto fields = dataset->fields();
    const auto tokens = std::ranges::find_if(
        fields, [](const Field& field) { return field.kind == FieldKind::tokens && field.any_length(); });
    if (context == 0 || tokens == fields.end() || dataset->has_image()) {
        return dataset;
    }
    if (fields.size() > 1) {
        throw Unsupported({.where = dataset->path(),
                           .expected = "documents with one field of tokens, to join them to rows of data.context",
                           .got = describe_fields(fields)});
    }
    return std::make_unique<PackedDocuments>(std::move(dataset), 0, context);
}

// A context that nothing would use: packed samples have theirs.
void require_context(const Dataset& dataset, std::int64_t context) {
    const auto fits = [&](const Field& field) { return field.shape == Shape{context + 1}; };
    if (context > 0 && dataset.format() != "tokens" && std::ranges::none_of(dataset.fields(), fits) &&
        std::ranges::none_of(dataset.stored_fields(), fits)) {
        throw InvalidArgument({.where = dataset.path(),
                               .expected = fmt::format("a token stream, or samples of {} tokens, for a context of {}",
                                                       context + 1, context),
                               .got = std::string(dataset.format()),
                               .hint = "leave the context out, or name a field of documents of any length: "
                                       "[data.fields.tokens] with is = \"tokens\""});
    }
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const std::string& data, Split split, const OpenOptions& options) {
    return with_checked_maps([&] {
        const Format* format = format_of(data);
        const bool paired = names_paired_folders(data, options.fields);
        if (format == nullptr && !paired) {
            refuse(data);
        }
        std::unique_ptr<Dataset> dataset = with_memory_place(shown_name(data), [&] {
            return paired ? open_as<PairedFolder>(data, split, options) : format->open(data, split, options);
        });
        if (dataset->fields().size() < options.fields.more.size()) {  // some formats have fields without being asked
            throw Unsupported({.where = shown_name(data),
                               .expected = "a data set with further fields",
                               .got = fmt::format("{}, which has image and label only", dataset->format()),
                               .hint = "docs/data.md lists the formats with further fields"});
        }
        dataset = in_rows(std::move(dataset), options.context);
        require_context(*dataset, options.context);
        return dataset;
    });
}

bool is_other_than_image_folder(const std::string& data) {
    const Format* format = format_of(data);
    return format != nullptr && format->open != open_image_folder;
}

bool has_splits(const std::string& data, const FieldNames& fields) {
    if (names_paired_folders(data, fields)) {
        return paired_folder_has_splits(data, fields.image);
    }
    const Format* format = format_of(data);
    return format != nullptr && format->splits != nullptr && format->splits(data);
}

}  // namespace stoker
