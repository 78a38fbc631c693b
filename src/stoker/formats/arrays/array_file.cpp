// Where arrays lie in their files; what is in them is array_source's business.
#include "stoker/formats/arrays/array_file.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <type_traits>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/arrays/npy.h"
#include "stoker/formats/arrays/npy_header.h"
#include "stoker/formats/arrays/pt.h"
#include "stoker/formats/arrays/safetensors.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNpy = ".npy";

// Runs `read` and adds file and member to what it throws.
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

bool is_there(const fs::path& path) {
    std::error_code unknown;  // a file that cannot be looked at is taken for absent
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
        if (is_there(beside)) {
            return beside;
        }
    }
    return std::nullopt;
}

// "x" of a member "x.npy".
std::optional<std::string> member_name(const ZipEntry& entry) {
    const bool npy = entry.name.ends_with(kNpy);
    return npy ? std::optional(entry.name.substr(0, entry.name.size() - kNpy.size())) : std::nullopt;
}

bool holds_text(std::span<const std::byte> bytes) {
    const std::string_view descr = read_npy_header(bytes).descr;
    return descr.size() > 1 && (descr[1] == 'U' || descr[1] == 'S');
}

std::optional<ArrayType> type_of(std::string_view dtype) {
    constexpr std::pair<std::string_view, ArrayType> kTypes[] = {
        {"BOOL", {ArrayKind::boolean, 1}},         {"I8", {ArrayKind::signed_integer, 1}},
        {"U8", {ArrayKind::unsigned_integer, 1}},  {"I16", {ArrayKind::signed_integer, 2}},
        {"U16", {ArrayKind::unsigned_integer, 2}}, {"I32", {ArrayKind::signed_integer, 4}},
        {"U32", {ArrayKind::unsigned_integer, 4}}, {"I64", {ArrayKind::signed_integer, 8}},
        {"U64", {ArrayKind::unsigned_integer, 8}}, {"F16", {ArrayKind::floating, 2}},
        {"F32", {ArrayKind::floating, 4}},         {"F64", {ArrayKind::floating, 8}}};
    const auto* const found = std::ranges::find_if(kTypes, [&](const auto& known) { return known.first == dtype; });
    return found == std::end(kTypes) ? std::nullopt : std::optional(found->second);
}

}  // namespace

// ---- NpyFile ----

NpyFile::NpyFile(const fs::path& path) {
    add(path, "images");
    if (const std::optional<fs::path> labels = labels_beside(path)) {
        add(*labels, "labels");
    }
}

void NpyFile::add(const fs::path& path, std::string name) {
    const Part& part = parts_.emplace_back(path);
    ArrayView& view = arrays_.emplace_back(located(path, "", [&] { return parse_npy(part.map.bytes()); }));
    view.name = std::move(name);
    view.file = &part.file;
    bytes_ += static_cast<std::int64_t>(part.map.bytes().size());
}

// ---- NpzFile ----

NpzFile::NpzFile(const fs::path& path, std::span<const std::string> wanted) : zip_(path) {
    for (const ZipEntry& entry : zip_.entries()) {
        if (const auto name = member_name(entry); name && is_wanted(wanted, *name)) {
            located(path, entry.name, [&] { add(entry); });
        }
    }
}

void NpzFile::add(const ZipEntry& entry) {
    const bool stored = entry.method == ZipEntry::stored;
    const std::span<const std::byte> bytes =
        stored ? zip_.stored(entry) : std::as_const(inflated_.emplace_back(zip_.inflate(entry))).bytes();
    if (holds_text(bytes)) {
        texts_.emplace(*member_name(entry), parse_npy_text(bytes));
    } else {
        ArrayView& view = arrays_.emplace_back(parse_npy(bytes));
        view.name = *member_name(entry);
        view.offset += entry.offset;
        view.file = stored ? zip_.file() : nullptr;
    }
    // After the parsers, which say what is wrong, and so that the fuzzer reaches them.
    if (stored && entry.size <= kCheckedBytes) {
        zip_.check_stored(entry);
    }
}

std::vector<std::string> NpzFile::names(const fs::path& path) {
    const ZipFile zip(path);
    std::vector<std::string> names;
    for (const ZipEntry& entry : zip.entries()) {
        if (auto name = member_name(entry)) {
            names.push_back(std::move(*name));
        }
    }
    return names;
}

// ---- SafetensorsArrays ----

SafetensorsArrays::SafetensorsArrays(const fs::path& path, std::span<const std::string> wanted)
    : file_(path), map_(file_) {
    const auto entries = located(path, "", [&] { return parse_safetensors(map_.bytes()); });
    for (const SafetensorsEntry& entry : entries) {
        if (!is_wanted(wanted, entry.name)) {
            continue;
        }
        const std::optional<ArrayType> type = type_of(entry.dtype);
        if (!type) {
            throw Unsupported({.where = fmt::format("{}:{}", path.string(), entry.name),
                               .expected = "bool, int, uint or float of 16 to 64 bits",
                               .got = entry.dtype});
        }
        const auto offset = static_cast<std::uint64_t>(entry.bytes.data() - map_.bytes().data());
        arrays_.push_back({.name = entry.name,
                           .type = *type,
                           .shape = entry.shape,
                           .bytes = entry.bytes,
                           .file = &file_,
                           .offset = offset});
    }
}

std::vector<std::string> SafetensorsArrays::names(const fs::path& path) {
    const MappedFile map(path);
    std::vector<std::string> names;
    for (SafetensorsEntry& entry : located(path, "", [&] { return parse_safetensors(map.bytes()); })) {
        names.push_back(std::move(entry.name));
    }
    return names;
}

// ---- any of them ----

namespace {

template <typename Opened>
ArrayFile open_as(const std::string& path, std::span<const std::string> wanted) {
    std::shared_ptr<const Opened> opened;
    if constexpr (std::is_constructible_v<Opened, const std::string&, std::span<const std::string>>) {
        opened = std::make_shared<const Opened>(path, wanted);
    } else {
        opened = std::make_shared<const Opened>(path);
    }
    ArrayFile file{.format = {}, .owner = opened, .arrays = opened->arrays(), .texts = {}, .bytes = opened->bytes()};
    if constexpr (requires { opened->texts(); }) {
        file.texts = opened->texts();
    }
    return file;
}

template <typename Opened>
std::vector<std::string> names_in(const std::string& path) {
    std::vector<std::string> names;
    if constexpr (requires { Opened::names(path); }) {
        names = Opened::names(path);
    } else {
        const Opened opened(path);
        std::ranges::transform(opened.arrays(), std::back_inserter(names), &ArrayView::name);
    }
    return names;
}

struct Kind {
    std::string_view ending;
    std::string_view format;
    ArrayFile (*open)(const std::string& path, std::span<const std::string> wanted);
    std::vector<std::string> (*names)(const std::string& path);
};

constexpr Kind kKinds[] = {
    {".npy", "npy", open_as<NpyFile>, names_in<NpyFile>},
    {".npz", "npz", open_as<NpzFile>, names_in<NpzFile>},
    {".safetensors", "safetensors", open_as<SafetensorsArrays>, names_in<SafetensorsArrays>},
    {".pt", "pt", open_as<PtFile>, names_in<PtFile>},
};

constexpr std::string_view kFolderImages = "images.npy";

bool is_array_folder(const std::string& path) {
    std::error_code unknown;
    return fs::is_directory(path, unknown) && is_there(fs::path(path) / kFolderImages);
}

std::string file_of(const std::string& path) {
    return is_array_folder(path) ? (fs::path(path) / kFolderImages).string() : path;
}

const Kind* kind_of(const std::string& path) {
    const auto* const found =
        std::ranges::find_if(kKinds, [&](const Kind& kind) { return path.ends_with(kind.ending); });
    return found == std::end(kKinds) ? nullptr : found;
}

const Kind& known_kind(const std::string& path) {
    const Kind* kind = kind_of(path);
    if (kind == nullptr) {
        throw Unsupported(
            {.where = path, .expected = "a file of arrays (.npy, .npz, .safetensors, .pt)", .got = "another"});
    }
    return *kind;
}

}  // namespace

const ArrayView* ArrayFile::find(std::string_view name) const {
    const auto found = std::ranges::find(arrays, name, &ArrayView::name);
    return found == arrays.end() ? nullptr : &*found;
}

bool is_array_path(const std::string& path) {
    std::error_code unknown;
    return fs::is_directory(path, unknown) ? is_array_folder(path) : kind_of(path) != nullptr && is_there(path);
}

std::vector<std::string> array_names(const std::string& path) {
    const std::string file = file_of(path);
    return known_kind(file).names(file);
}

ArrayFile open_arrays(const std::string& path, std::span<const std::string> wanted) {
    const std::string name = file_of(path);
    const Kind& kind = known_kind(name);
    ArrayFile file = kind.open(name, wanted);
    file.format = kind.format;
    return file;
}

}  // namespace stoker
