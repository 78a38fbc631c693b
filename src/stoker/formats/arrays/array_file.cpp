// Locates arrays in their files. array_dataset.h decides which of them are images and labels.
#include "stoker/formats/arrays/array_file.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/arrays/npy.h"
#include "stoker/formats/arrays/pt.h"
#include "stoker/formats/arrays/safetensors.h"
#include "stoker/io/zip.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNpy = ".npy";
constexpr std::string_view kFolderImages = "images.npy";
// Larger stored members are not compared with their checksums.
constexpr std::uint64_t kMaxChecked = std::uint64_t{256} << 20;

// Calls `read` and adds the path and the member to its exceptions.
template <typename Read>
auto located(const fs::path& path, const std::string& member, Read read) {
    const std::string where = member.empty() ? path.string() : fmt::format("{}:{}", path.string(), member);
    try {
        return read();
    } catch (const DataError& error) {
        throw error.located({.path = where});
    } catch (const Unsupported& error) {
        throw Unsupported(fmt::format("{}: {}", where, error.what()));
    }
}

bool is_wanted(std::span<const std::string> wanted, std::string_view name) {
    return wanted.empty() || std::ranges::find(wanted, name) != wanted.end();
}

bool file_exists(const fs::path& path) {
    std::error_code unknown;  // a file without access counts as missing
    return fs::exists(path, unknown);
}

std::optional<fs::path> labels_beside(const fs::path& path) {
    const std::string name = path.stem().string();
    std::vector<std::string> candidates = {name + "_labels"};
    if (const std::size_t at = name.find("images"); at != std::string::npos) {
        candidates.push_back(std::string(name).replace(at, std::string_view("images").size(), "labels"));
    }
    if (name == "x") {
        candidates.insert(candidates.end(), {"labels", "y"});
    }
    for (const std::string& candidate : candidates) {
        fs::path beside = path.parent_path() / (candidate + ".npy");
        if (file_exists(beside)) {
            return beside;
        }
    }
    return std::nullopt;
}

// "x" for the member "x.npy"; empty for other members.
std::optional<std::string> member_name(const ZipEntry& entry) {
    const bool npy = entry.name.ends_with(kNpy);
    return npy ? std::optional(entry.name.substr(0, entry.name.size() - kNpy.size())) : std::nullopt;
}

bool is_text(std::span<const std::byte> npy) {
    const std::string_view descr = read_npy_header(npy).descr;
    return descr.size() > 1 && (descr[1] == 'U' || descr[1] == 'S');
}

struct OpenFile {
    explicit OpenFile(const fs::path& path) : file(path), map(file) {}

    std::span<const std::byte> bytes() const { return map.bytes(); }

    File file;
    MappedFile map;
};

ArrayFile open_npy(const fs::path& path, std::span<const std::string> /*wanted*/) {
    const auto files = std::make_shared<std::deque<OpenFile>>();
    ArrayFile opened{.format = {}, .owner = files, .arrays = {}, .texts = {}};
    const auto add = [&](const fs::path& part, const char* name) {
        const OpenFile& file = files->emplace_back(part);
        ArrayView& view = opened.arrays.emplace_back(located(part, "", [&] { return parse_npy(file.bytes()); }));
        view.name = name;
        view.file = &file.file;
        opened.bytes += std::ssize(file.bytes());
    };
    add(path, "images");
    if (const auto labels = labels_beside(path)) {
        add(*labels, "labels");
    }
    return opened;
}

std::vector<std::string> npy_names(const fs::path& path) {
    return labels_beside(path) ? std::vector<std::string>{"images", "labels"} : std::vector<std::string>{"images"};
}

struct NpzFile {
    explicit NpzFile(const fs::path& path) : zip(path) {}

    ZipFile zip;
    std::deque<Buffer> inflated;
};

void add_member(NpzFile& npz, const ZipEntry& entry, const std::string& name, ArrayFile& opened) {
    const bool stored = entry.method == ZipEntry::stored;
    const std::span<const std::byte> bytes =
        stored ? npz.zip.stored(entry) : std::as_const(npz.inflated.emplace_back(npz.zip.inflate(entry))).bytes();
    if (is_text(bytes)) {
        opened.texts.emplace(name, parse_npy_text(bytes));
    } else {
        ArrayView& view = opened.arrays.emplace_back(parse_npy(bytes));
        view.name = name;
        view.offset += entry.offset;
        view.file = stored ? npz.zip.file() : nullptr;
    }
    // After the parsers: their messages are more precise, and the fuzzer would not get past a checksum.
    if (stored && entry.size <= kMaxChecked) {
        npz.zip.check_stored(entry);
    }
}

ArrayFile open_npz(const fs::path& path, std::span<const std::string> wanted) {
    const auto npz = std::make_shared<NpzFile>(path);
    ArrayFile opened{.format = {}, .owner = npz, .arrays = {}, .texts = {}, .bytes = std::ssize(npz->zip.bytes())};
    for (const ZipEntry& entry : npz->zip.entries()) {
        if (const auto name = member_name(entry); name && is_wanted(wanted, *name)) {
            located(path, entry.name, [&] { add_member(*npz, entry, *name, opened); });
        }
    }
    return opened;
}

std::vector<std::string> npz_names(const fs::path& path) {
    const ZipFile zip(path);
    std::vector<std::string> names;
    for (const ZipEntry& entry : zip.entries()) {
        if (auto name = member_name(entry)) {
            names.push_back(std::move(*name));
        }
    }
    return names;
}

ArrayFile open_safetensors(const fs::path& path, std::span<const std::string> wanted) {
    const auto file = std::make_shared<OpenFile>(path);
    ArrayFile opened{.format = {}, .owner = file, .arrays = {}, .texts = {}, .bytes = std::ssize(file->bytes())};
    for (SafetensorsEntry& entry : located(path, "", [&] { return parse_safetensors(file->bytes()); })) {
        if (!is_wanted(wanted, entry.name)) {
            continue;
        }
        const std::optional<ArrayType> type = safetensors_array_type(entry.dtype);
        if (!type) {
            throw Unsupported({.where = fmt::format("{}:{}", path.string(), entry.name),
                               .expected = "bool, int, uint or float of 16 to 64 bits",
                               .got = entry.dtype});
        }
        opened.arrays.push_back({.name = std::move(entry.name),
                                 .type = *type,
                                 .shape = std::move(entry.shape),
                                 .bytes = entry.bytes,
                                 .file = &file->file,
                                 .offset = static_cast<std::uint64_t>(entry.bytes.data() - file->bytes().data())});
    }
    return opened;
}

std::vector<std::string> safetensors_names(const fs::path& path) {
    const MappedFile map(path);
    std::vector<std::string> names;
    for (SafetensorsEntry& entry : located(path, "", [&] { return parse_safetensors(map.bytes()); })) {
        names.push_back(std::move(entry.name));
    }
    return names;
}

ArrayFile open_pt(const fs::path& path, std::span<const std::string> wanted) {
    const auto file = std::make_shared<const PtFile>(path, wanted);
    return {.format = {}, .owner = file, .arrays = file->arrays(), .texts = file->texts(), .bytes = file->bytes()};
}

struct Format {
    std::string_view extension;
    std::string_view name;
    ArrayFile (*open)(const fs::path& path, std::span<const std::string> wanted);
    std::vector<std::string> (*names)(const fs::path& path);
};

constexpr Format kArrayFormats[] = {
    {".npy", "npy", open_npy, npy_names},
    {".npz", "npz", open_npz, npz_names},
    {".safetensors", "safetensors", open_safetensors, safetensors_names},
    {".pt", "pt", open_pt, PtFile::names},
};

bool is_array_folder(const std::string& path) {
    return is_folder(path) && file_exists(fs::path(path) / kFolderImages);
}

std::string file_of(const std::string& path) {
    return is_array_folder(path) ? (fs::path(path) / kFolderImages).string() : path;
}

const Format* find_format(const std::string& path) {
    const auto* const found =
        std::ranges::find_if(kArrayFormats, [&](const Format& format) { return path.ends_with(format.extension); });
    return found == std::end(kArrayFormats) ? nullptr : found;
}

const Format& require_format(const std::string& path) {
    const Format* format = find_format(path);
    if (format == nullptr) {
        throw Unsupported(
            {.where = path, .expected = "a file of arrays (.npy, .npz, .safetensors, .pt)", .got = "another"});
    }
    return *format;
}

}  // namespace

const ArrayView* ArrayFile::find(std::string_view name) const {
    const auto found = std::ranges::find(arrays, name, &ArrayView::name);
    return found == arrays.end() ? nullptr : &*found;
}

bool is_array_path(const std::string& path) {
    return is_folder(path) ? is_array_folder(path) : find_format(path) != nullptr && file_exists(path);
}

std::vector<std::string> array_names(const std::string& path) {
    const std::string file = file_of(path);
    return require_format(file).names(file);
}

ArrayFile open_arrays(const std::string& path, std::span<const std::string> wanted) {
    const std::string file = file_of(path);
    const Format& format = require_format(file);
    ArrayFile opened = format.open(file, wanted);
    opened.format = format.name;
    return opened;
}

}  // namespace stoker
