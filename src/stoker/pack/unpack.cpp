// Names come from outside: each part of a path is checked before any file is made, and files are only ever
// new ones.
#include "stoker/pack/unpack.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/codecs/codec.h"
#include "stoker/codecs/dct/dct.h"
#include "stoker/codecs/encode.h"
#include "stoker/formats/folder/image_folder.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/stk/stk.h"
#include "stoker/pack/ordered.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUnlabelled = "unlabelled";

const char* extension_of(std::span<const std::byte> bytes) {
    const std::optional<Codec> codec = sniff_codec(bytes);
    if (!codec) {
        return "";
    }
    switch (*codec) {
        case Codec::jpeg:
        case Codec::dct:
        case Codec::dct_zstd:
            return ".jpg";
        case Codec::png:
            return ".png";
        case Codec::webp:
            return ".webp";
        case Codec::bmp:
            return ".bmp";
        case Codec::pnm:
            return ".ppm";
    }
    return "";
}

// Every part between slashes is a plain name.
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

// A file that must not be there yet; the caller makes all of them durable at the end, at once.
void write_new(const fs::path& path, std::span<const std::byte> bytes) {
    const auto fail = [&](const char* expected) {
        throw IoError({.where = path.string(), .expected = expected, .got = errno_text()});
    };
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) {
        throw IoError({.where = path.string(), .expected = "a folder that can be made", .got = error.message()});
    }
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file < 0) {
        fail("a file name of its own for each key");
    }
    while (!bytes.empty()) {
        const ssize_t written = ::write(file, bytes.data(), bytes.size());
        if (written < 0 && errno != EINTR) {
            ::close(file);
            fail("room to write");
        }
        bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    }
    if (::close(file) != 0) {
        fail("the file to be written");
    }
}

// Labels without names by their numbers.
std::string class_of(std::int64_t label, std::span<const std::string> classes) {
    const auto at = static_cast<std::size_t>(label);
    return label < 0 ? "" : at < classes.size() ? classes[at] : std::to_string(label);
}

struct Slot {
    Sample sample;
    std::vector<std::byte> made;
    std::int64_t bytes = 0;
    bool original = false;
};

// The bytes of the sample's file: as stored, restored or encoded.
std::span<const std::byte> file_bytes(const Sample& sample, std::vector<std::byte>& made) {
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
    const OrderedWork range{.end = dataset.size(), .threads = options.workers};
    std::vector<Slot> slots(static_cast<std::size_t>(range.places()));
    UnpackResult result;
    const auto work = [&](std::int64_t index, int place, int) {
        Slot& slot = slots[static_cast<std::size_t>(place)];
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
            write_new(directory / name, bytes);
            slot.bytes = static_cast<std::int64_t>(bytes.size());
            slot.original = !raw && (stk == nullptr || stk->image(index).original_file);
        } catch (const DataError& error) {
            throw error.located({.path = dataset.path(), .key = key, .index = index});
        } catch (const InvalidArgument& error) {  // pixels that no PNG can hold
            throw DataError({.path = dataset.path(), .key = key, .index = index},
                            {.where = "unpack", .expected = "an image that a file can hold", .got = error.what()});
        }
    };
    run_ordered(range, work, [&](std::int64_t index, int place) {
        const Slot& slot = slots[static_cast<std::size_t>(place)];
        ++result.samples;
        result.bytes += slot.bytes;
        ++(slot.original ? result.original : result.same_pixels);
        if (options.progress) {
            options.progress(index + 1, result.bytes);
        }
    });
    const int folder = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool durable = folder >= 0 && ::syncfs(folder) == 0;
    const std::string reason = durable ? "" : errno_text();
    if (folder >= 0) {
        ::close(folder);
    }
    if (!durable) {
        throw IoError({.where = directory.string(), .expected = "the files to reach the disk", .got = reason});
    }
    return result;
}

}  // namespace stoker
