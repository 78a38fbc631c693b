// Keys and class names come from outside: every path component is checked before a file is created, and existing files
// are never written to.
#include "stoker/pack/unpack.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/codecs/codec.h"
#include "stoker/codecs/dct/dct.h"
#include "stoker/codecs/encode.h"
#include "stoker/formats/folder/image_folder.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/stk/stk.h"
#include "stoker/pack/ordered_parallel_for.h"
#include "stoker/pack/unpack_fields.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUnlabelled = "unlabelled";

// The extension of the file that file_bytes makes of an encoded image; empty for unknown bytes.
std::string extension_of(std::span<const std::byte> bytes) {
    const std::optional<Codec> codec = sniff_codec(bytes);
    if (!codec) {
        return "";
    }
    const bool jpeg = codec == Codec::jpeg || codec == Codec::dct || codec == Codec::dct_zstd;
    return jpeg ? ".jpg" : codec == Codec::pnm ? ".ppm" : fmt::format(".{}", codec_name(*codec));
}

// Whether every component is a plain name, so that the path stays inside its folder.
bool stays_inside(std::string_view path) {
    while (true) {
        const std::size_t slash = path.find('/');
        const std::string_view part = path.substr(0, slash);
        if (part.empty() || part == "." || part == ".." || part.find('\0') != std::string_view::npos) {
            return false;
        }
        if (slash == std::string_view::npos) {
            return true;
        }
        path.remove_prefix(slash + 1);
    }
}

// Writes a file that must not exist yet. Does not sync it; unpack() syncs the file system once at the end.
void write_new(const fs::path& path, std::span<const std::byte> bytes) {
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) {
        throw errno_error(path.string(), "a folder that can be created", error.value());
    }
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (file.get() < 0) {
        throw errno_error(path.string(), "a unique file name for each key");
    }
    // Network file systems may report a full disk only when a descriptor is closed, which a copy of it does here.
    if (write_bytes(file.get(), bytes) < bytes.size() || ::close(::dup(file.get())) != 0) {
        throw errno_error(path.string(), "room to write");
    }
}

// Name of the class; its number if it has no name.
std::string class_of(std::int64_t label, std::span<const std::string> classes) {
    const auto at = static_cast<std::size_t>(label);
    return label < 0 ? "" : at < classes.size() ? classes[at] : std::to_string(label);
}

struct Slot {
    Sample sample;
    std::vector<std::byte> made;
    std::int64_t bytes = 0;
    bool original = false;
    fs::path path;                   // of the image, in the folder
    std::vector<std::string> cells;  // of the further fields
};

// The bytes of the file of an image or mask: as stored, restored from a dct record, or encoded as PNG.
std::span<const std::byte> file_bytes(const FieldValue& sample, std::vector<std::byte>& made) {
    if (!sample.encoded) {
        made = encode_png({reinterpret_cast<const std::uint8_t*>(sample.bytes.data()), sample.height, sample.width,
                           sample.channels, std::ptrdiff_t{sample.width} * sample.channels});
        return made;
    }
    if (sniff_dct(sample.bytes)) {
        made = restore_jpeg(sample.bytes);
        return made;
    }
    return sample.bytes;
}

// Writes the files of the further fields and fills the row's cells. `name`: of the image.
void unpack_fields(std::span<const Field> fields, const fs::path& directory, const fs::path& name, Slot& slot) {
    slot.cells.clear();
    for (std::size_t i = 0; i < fields.size(); ++i) {
        FieldValue& value = slot.sample.field(i);
        if (!UnpackFields::is_file(fields[i])) {
            std::ranges::move(UnpackFields::cells(fields[i], value), std::back_inserter(slot.cells));
            continue;
        }
        const std::span<const std::byte> bytes = file_bytes(value, slot.made);
        const std::string extension = extension_of(bytes);
        const fs::path path = UnpackFields::file_path(fields[i], name, extension);
        write_new(directory / path, bytes);
        slot.bytes += static_cast<std::int64_t>(bytes.size());
        slot.cells.push_back(path.string());
    }
}

}  // namespace

fs::path unpacked_name(const std::string& key, const std::string& class_name, bool raw,
                       std::span<const std::byte> bytes) {
    std::string name = key;
    if (!class_name.empty() && !key.starts_with(class_name + "/")) {
        name = class_name + "/" + key;
    } else if (class_name.empty() && key.find('/') == std::string::npos) {
        name = fmt::format("{}/{}", kUnlabelled, key);
    }
    if (!stays_inside(name) || (!class_name.empty() && class_name.find('/') != std::string::npos)) {
        throw DataError({.path = "", .key = key}, {.where = "unpack",
                                                   .expected = "a key and a class that are names within the folder",
                                                   .got = fmt::format("\"{}\" of class \"{}\"", key, class_name)});
    }
    if (raw) {
        return name.ends_with(".png") ? name : name + ".png";
    }
    return is_image_name(name) ? name : name + extension_of(bytes);
}

UnpackResult unpack(const Dataset& dataset, const fs::path& directory, const UnpackOptions& options) {
    const auto* stk = dynamic_cast<const StkDataset*>(&dataset);
    const auto classes = dataset.classes();
    UnpackFields table(dataset);
    const OrderedRange range{.end = dataset.size(), .threads = options.workers};
    std::vector<Slot> slots(static_cast<std::size_t>(range.slots()));
    UnpackResult result;
    const auto work = [&](std::int64_t index, int number, int) {
        Slot& slot = slots[static_cast<std::size_t>(number)];
        slot.sample.label = -1;
        const std::string key = dataset.key(index);
        try {
            if (stk != nullptr) {
                stk->reader().verify(index);
            }
            dataset.read(index, slot.sample);
            const std::string class_name = class_of(slot.sample.label, classes);
            const bool raw = !slot.sample.encoded;
            const fs::path name = unpacked_name(key, class_name, raw, slot.sample.bytes);
            const std::span<const std::byte> bytes = file_bytes(slot.sample, slot.made);
            slot.path = table.image_path(name);
            write_new(directory / slot.path, bytes);
            slot.bytes = static_cast<std::int64_t>(bytes.size());
            unpack_fields(dataset.fields(), directory, name, slot);
            slot.original = !raw && (stk == nullptr || stk->image(index).original_file);
        } catch (const DataError& error) {
            throw error.located({.path = dataset.path(), .key = key, .index = index});
        } catch (const InvalidArgument& error) {  // pixels that PNG cannot store
            throw DataError({.path = dataset.path(), .key = key, .index = index},
                            {.where = "unpack", .expected = "an image that a file can store", .got = error.what()});
        }
    };
    ordered_parallel_for(range, work, [&](std::int64_t index, int number) {
        const Slot& slot = slots[static_cast<std::size_t>(number)];
        ++result.samples;
        result.bytes += slot.bytes;
        if (table.any()) {
            table.add(slot.path, slot.sample.label, slot.cells);
        }
        ++(slot.original ? result.original : result.same_pixels);
        if (options.progress) {
            options.progress(index + 1, result.bytes);
        }
    });
    if (table.any()) {
        write_new(directory / "labels.csv", as_bytes(table.table()));
    }
    const Descriptor folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() < 0 || ::syncfs(folder.get()) != 0) {
        throw errno_error(directory.string(), "the files to reach the disk");
    }
    return result;
}

}  // namespace stoker
