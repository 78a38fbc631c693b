// Tells data specifications apart: synth:digits by its scheme, a directory by what lies in it.
#include "stoker/formats/open.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <system_error>

#include "stoker/base/error.h"
#include "stoker/formats/idx.h"
#include "stoker/formats/image_folder.h"
#include "stoker/formats/stk.h"
#include "stoker/formats/stk_manifest.h"
#include "stoker/formats/synth_digits.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSynthScheme = "synth:";
constexpr std::string_view kSynthDigits = "synth:digits";
constexpr const char* kReadable =
    "a folder with one subfolder of images (.jpg, .png, .webp, ...) for each class, a folder of IDX files "
    "(train-images-idx3-ubyte[.gz], ...), an stk data set (stoker pack), or synth:digits";

struct SynthOptions {
    std::int64_t count = kSynthDigitsTrain;  // of the training split
    std::uint64_t seed = 0;
};

template <typename Number>
Number parse_number(const std::string& data, std::string_view name, std::string_view text, Number smallest) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < smallest) {
        throw InvalidArgument({.where = data,
                               .expected = fmt::format("{} to be a whole number of at least {}", name, smallest),
                               .got = fmt::format("\"{}\"", text)});
    }
    return value;
}

// What follows "synth:digits": nothing, or "?count=N&seed=S" in any order.
SynthOptions parse_synth(const std::string& data) {
    SynthOptions options;
    std::string_view rest = std::string_view(data).substr(kSynthDigits.size());
    if (rest.empty()) {
        return options;
    }
    rest.remove_prefix(1);
    while (true) {
        const std::size_t end = std::min(rest.find('&'), rest.size());
        const std::string_view pair = rest.substr(0, end);
        const std::size_t equals = std::min(pair.find('='), pair.size());
        const std::string_view name = pair.substr(0, equals);
        const std::string_view value = pair.substr(std::min(equals + 1, pair.size()));
        if (name == "count") {
            options.count = parse_number<std::int64_t>(data, name, value, 1);
        } else if (name == "seed") {
            options.seed = parse_number<std::uint64_t>(data, name, value, 0);
        } else {
            throw InvalidArgument({.where = data,
                                   .expected = "the parameters count and seed, as in synth:digits?count=1000&seed=7",
                                   .got = fmt::format("\"{}\"", pair)});
        }
        if (end == rest.size()) {
            return options;
        }
        rest.remove_prefix(end + 1);
    }
}

bool is_synth_digits(std::string_view data) {
    return data == kSynthDigits || data.starts_with("synth:digits?");
}

std::unique_ptr<Source> open_synth(const std::string& data, Split split) {
    if (!is_synth_digits(data)) {
        throw InvalidArgument({.where = "data", .expected = "synth:digits", .got = fmt::format("\"{}\"", data)});
    }
    const SynthOptions options = parse_synth(data);
    const std::int64_t count = split == Split::train ? options.count : std::max<std::int64_t>(options.count / 6, 1);
    return make_synth_digits(split, count, options.seed);
}

bool may_be_image_folder(const fs::path& directory) {
    std::error_code error;
    std::error_code unknown;  // a type that cannot be told is no folder
    for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
        if (entry->is_directory(unknown) || is_image_name(entry->path().native())) {
            return true;
        }
    }
    if (error) {
        throw IoError({.where = directory.string(), .expected = "a readable folder", .got = error.message()});
    }
    return false;
}

std::unique_ptr<Source> open_directory(const fs::path& directory, Split split) {
    if (holds_stk(directory)) {
        return std::make_unique<StkSource>(directory);
    }
    if (holds_idx(directory)) {
        const IdxPaths paths = find_idx(directory, split);
        return std::make_unique<IdxSource>(paths.images, paths.labels, split);
    }
    if (!may_be_image_folder(directory)) {
        std::error_code gone;  // it was readable a moment ago
        throw DataError({.path = directory.string()},
                        {.where = "data",
                         .expected = kReadable,
                         .got = fs::is_empty(directory, gone) ? "an empty folder" : "a folder without any of these"});
    }
    return std::make_unique<ImageFolderSource>(directory);
}

}  // namespace

std::unique_ptr<Source> open_source(const std::string& data, Split split) {
    if (data.starts_with(kSynthScheme)) {
        return open_synth(data, split);
    }
    if (data.find("://") != std::string::npos) {
        throw Unsupported({.where = "data", .expected = kReadable, .got = fmt::format("\"{}\"", data)});
    }
    std::error_code error;
    const fs::file_status status = fs::status(data, error);
    if (!fs::exists(status)) {
        throw IoError({.where = data.empty() ? "data" : data,
                       .expected = kReadable,
                       .got = error ? error.message() : "no such path"});
    }
    if (!fs::is_directory(status)) {
        throw Unsupported(
            {.where = data, .expected = kReadable, .got = "a file", .hint = "give the folder that holds it"});
    }
    return open_directory(data, split);
}

bool has_splits(const std::string& data) {
    std::error_code error;  // a path that is not there has no splits; opening it says why
    return is_synth_digits(data) || (fs::is_directory(data, error) && !holds_stk(data) && holds_idx(data));
}

}  // namespace stoker
