// TensorFlow Datasets names its shards NAME-SPLIT.tfrecord-00000-of-00010; older writers, NAME-00000-of-00010.
#include "stoker/formats/tfrecord/tf_names.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "stoker/base/ascii.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/shard_names.h"
#include "stoker/io/byte_file.h"

namespace stoker {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kPattern = "*?[]";
constexpr std::string_view kOf = "-of-";
constexpr std::array<std::string_view, 3> kEndings = {".tfrecords", ".tfrecord", ".tfrec"};

// A shard's number with at least five digits, or a pattern that stands for one.
bool is_number(std::string_view text) {
    constexpr std::size_t kLeast = 5;
    const bool pattern = text.find_first_of(kPattern) != std::string_view::npos;
    return text.find_first_not_of(pattern ? "0123456789*?[]-" : kDigits) == std::string_view::npos &&
           (pattern || text.size() >= kLeast);
}

// The begin of "-00000-of-00010" at the end of a name; npos without one.
std::size_t find_numbers(std::string_view name) {
    const std::size_t of = name.rfind(kOf);
    if (of == std::string_view::npos || of == 0 || !is_number(name.substr(of + kOf.size()))) {
        return std::string_view::npos;
    }
    const std::size_t dash = name.substr(0, of).find_last_of('-');
    return dash != std::string_view::npos && dash > 0 && is_number(name.substr(dash + 1, of - dash - 1))
               ? dash
               : std::string_view::npos;
}

struct Ending {
    std::size_t begin = std::string_view::npos;
    std::size_t end = 0;
};

Ending find_ending(std::string_view name) {
    for (const std::string_view ending : kEndings) {
        if (const std::size_t at = name.rfind(ending); at != std::string_view::npos && at > 0) {
            return {.begin = at, .end = at + ending.size()};
        }
    }
    return {};
}

std::string file_name(std::string_view path) {
    return std::string(path.substr(path.find_last_of('/') + 1));
}

// The last word of a set's name without a number: "train" for "mnist-train" and "train_01".
std::string split_word(std::string_view file) {
    constexpr std::string_view kBetween = "-_.";
    const std::string set = tfrecord_set_name(file);
    std::string_view name = set;
    name = name.substr(0, name.find_last_not_of(kDigits) + 1);
    name = name.substr(0, name.find_last_not_of(kBetween) + 1);
    return lower_case(name.substr(name.find_last_of(kBetween) + 1));
}

using Names = std::vector<std::string>;

// The shards of a folder by split; both empty unless it has both.
struct Splits {
    Names train;
    Names test;
};

Splits splits_of(const Names& shards) {
    constexpr std::array<std::string_view, 2> kTrain = {"train", "training"};
    constexpr std::array<std::string_view, 6> kTest = {"val", "valid", "validation", "dev", "test", "testing"};
    const auto named = [&](const auto& words) {
        for (const std::string_view word : words) {
            Names found;
            std::ranges::copy_if(shards, std::back_inserter(found),
                                 [&](const std::string& shard) { return split_word(file_name(shard)) == word; });
            if (!found.empty()) {
                return found;
            }
        }
        return Names();
    };
    Splits found{.train = named(kTrain), .test = named(kTest)};
    return found.train.empty() || found.test.empty() ? Splits() : found;
}

}  // namespace

bool is_tfrecord_name(std::string_view name) {
    const std::string lower = lower_case(name);
    if (const auto [begin, end] = find_ending(lower); begin != std::string_view::npos) {
        const std::string_view rest = std::string_view(lower).substr(end);
        return rest.empty() || rest == ".gz" || rest == ".zlib" || std::string_view("-*?[").find(rest[0]) != rest.npos;
    }
    const std::size_t numbers = find_numbers(lower);
    return numbers != std::string_view::npos && lower.find('.') == std::string::npos;
}

bool is_tfrecord_spec(const std::string& spec) {
    std::string name(without_query(spec));
    if (name.find_first_of("{}") != std::string::npos) {
        try {
            name = first_of_braces(name);
        } catch (const InvalidArgument&) {  // invalid braces
            return false;
        }
    }
    return is_tfrecord_name(file_name(name));
}

bool is_tfrecord_folder(const std::string& path) {
    return is_shard_folder(path, is_tfrecord_name);
}

std::string tfrecord_set_name(std::string_view file) {
    std::string name(file);
    if (const auto [begin, end] = find_ending(lower_case(name)); begin != std::string_view::npos) {
        name.resize(begin);
    }
    if (const std::size_t numbers = find_numbers(name); numbers != std::string_view::npos) {
        name.resize(numbers);
    }
    return name;
}

TfRecordShards tfrecord_shards(const std::string& spec, Split split, const RemoteOptions& remote) {
    if (is_remote(spec) || !is_folder(spec)) {
        return {.names = shard_names(spec, remote), .left_out = {}};
    }
    TfRecordShards shards{.names = shards_in(spec, is_tfrecord_name), .left_out = {}};
    Splits splits = splits_of(shards.names);
    if (!splits.train.empty()) {
        std::ranges::copy_if(shards.names, std::back_inserter(shards.left_out), [&](const std::string& shard) {
            return !std::ranges::binary_search(splits.train, shard) && !std::ranges::binary_search(splits.test, shard);
        });
        shards.names = std::move(split == Split::train ? splits.train : splits.test);
    }
    return shards;
}

bool tfrecord_has_splits(const std::string& spec) {
    return !is_remote(spec) && is_folder(spec) && !splits_of(shards_in(spec, is_tfrecord_name)).train.empty();
}

}  // namespace stoker
