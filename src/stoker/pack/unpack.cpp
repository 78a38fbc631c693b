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
#include "stoker/ops/resize.h"
#include "stoker/pack/ordered_parallel_for.h"
#include "stoker/pack/transcode.h"
#include "stoker/pack/unpack_coco.h"
#include "stoker/pack/unpack_fields.h"
#include "stoker/pack/unpack_tokens.h"
#include "stoker/pipeline/read_sample.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUnlabelled = "unlabelled";
constexpr const char* kCocoImages = "images";

// The extension of the file that file_bytes makes of an encoded image; empty for unknown bytes.
std::string extension_of(std::span<const std::byte> bytes) {
    const std::optional<Codec> codec = sniff_codec(bytes);
    if (!codec) {
        return is_npy(bytes) ? ".npy" : std::string(sound_ending(bytes));
    }
    const bool jpeg =
        codec == Codec::jpeg || codec == Codec::dct || codec == Codec::dct_zstd || codec == Codec::dct_ans;
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

// Name of the class; its number if it is nameless.
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
    UnpackCoco::Annotations boxes;
    ImageSize size{};  // if there are boxes
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
void unpack_fields(const UnpackFields& table, std::span<const Field> fields, const fs::path& directory,
                   const fs::path& name, Slot& slot) {
    slot.cells.clear();
    for (std::size_t i = 0; i < fields.size(); ++i) {
        FieldValue& value = slot.sample.field(i);
        if (!UnpackFields::is_file(fields[i])) {
            std::ranges::move(UnpackFields::cells(fields[i], value), std::back_inserter(slot.cells));
            continue;
        }
        const std::span<const std::byte> bytes = file_bytes(value, slot.made);
        const std::string extension = extension_of(bytes);
        const fs::path path = table.file_path(fields[i], name, extension);
        write_new(directory / path, bytes);
        slot.bytes += static_cast<std::int64_t>(bytes.size());
        slot.cells.push_back(path.string());
    }
}

std::string with_extension(const std::string& name, bool raw, std::span<const std::byte> bytes) {
    if (raw) {
        return name.ends_with(".png") ? name : name + ".png";
    }
    return is_image_name(name) ? name : name + extension_of(bytes);
}

[[noreturn]] void refuse_name(const std::string& key, const std::string& class_name) {
    throw DataError({.path = "", .key = key}, {.where = "unpack",
                                               .expected = "a key and a class that are names within the folder",
                                               .got = fmt::format("\"{}\" of class \"{}\"", key, class_name)});
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
        refuse_name(key, class_name);
    }
    return with_extension(name, raw, bytes);
}

namespace {

class Unpacking {
  public:
    Unpacking(const Dataset& dataset, const fs::path& directory, const UnpackOptions& options)
        : dataset_(dataset),
          stk_(dynamic_cast<const StkDataset*>(&dataset)),
          directory_(directory),
          options_(options),
          coco_(UnpackCoco::of(dataset)) {
        if (!coco_) {
            table_.emplace(dataset);
        }
    }

    UnpackResult run() {
        const OrderedRange range{.end = dataset_.size(), .threads = options_.workers};
        std::vector<Slot> slots(static_cast<std::size_t>(range.slots()));
        ordered_parallel_for(
            range, [&](std::int64_t index, int slot, int) { write(index, slots[static_cast<std::size_t>(slot)]); },
            [&](std::int64_t index, int slot) { add(index, slots[static_cast<std::size_t>(slot)]); });
        write_lists();
        return result_;
    }

  private:
    // Runs on a worker's thread.
    void write(std::int64_t index, Slot& slot) const {
        slot.sample.label = -1;
        const std::string key = dataset_.key(index);
        try {
            if (stk_ != nullptr) {
                stk_->reader().verify(index);
            }
            read_sample(dataset_, index, slot.sample);
            if (!slot.sample.frames.empty()) {
                write_clip(key, index, slot);
                return;
            }
            if (slot.sample.is_deep()) {
                slot.made = npy_file(slot.sample);
                slot.sample.set_encoded_image(slot.made);
            }
            coco_ ? write_boxes(key, index, slot) : write_fields(key, slot);
            slot.original = slot.sample.encoded &&
                            (stk_ != nullptr ? stk_->image(index).original_file : !sniff_dct(slot.sample.bytes));
        } catch (const DataError& error) {
            throw error.located({.path = dataset_.path(), .key = key, .index = index});
        } catch (const InvalidArgument& error) {  // pixels that PNG cannot store
            throw DataError({.path = dataset_.path(), .key = key, .index = index},
                            {.where = "unpack", .expected = "an image that a file can store", .got = error.what()});
        }
    }

    // A .npy file of raw frames; of image files a folder of them.
    void write_clip(const std::string& key, std::int64_t index, Slot& slot) const {
        Sample& sample = slot.sample;
        if (!dataset_.fields().empty()) {
            throw InvalidArgument({.where = "unpack",
                                   .expected = "clips without further fields",
                                   .got = describe_fields(dataset_.fields())});
        }
        const std::string class_name = class_of(sample.label, dataset_.classes());
        slot.original = stk_ != nullptr && stk_->image(index).original_file;
        if (!sample.frames.front().encoded) {
            slot.made = npy_file(sample);
            slot.path = unpacked_name(key, class_name, false, slot.made);
            write_new(directory_ / slot.path, slot.made);
            slot.bytes = static_cast<std::int64_t>(slot.made.size());
            return;
        }
        slot.bytes = 0;
        const bool unnamed = class_name.empty() && key.find('/') == std::string::npos;
        const std::string folder = unnamed ? fmt::format("{}/{}", kUnlabelled, key) : key;
        const std::size_t digits = fmt::to_string(sample.frames.size() - 1).size();
        for (std::size_t i = 0; i < sample.frames.size(); ++i) {
            const std::span<const std::byte> bytes = file_bytes(sample.frames[i], slot.made);
            slot.path = unpacked_name(fmt::format("{}/{:0{}}", folder, i, digits), class_name, false, bytes);
            write_new(directory_ / slot.path, bytes);
            slot.bytes += static_cast<std::int64_t>(bytes.size());
        }
    }

    void write_image(Slot& slot) const {
        const std::span<const std::byte> bytes = file_bytes(slot.sample, slot.made);
        write_new(directory_ / slot.path, bytes);
        slot.bytes = static_cast<std::int64_t>(bytes.size());
    }

    void write_fields(const std::string& key, Slot& slot) const {
        const std::string class_name = class_of(slot.sample.label, dataset_.classes());
        const fs::path name = unpacked_name(key, class_name, !slot.sample.encoded, slot.sample.bytes);
        slot.path = table_->image_path(name);
        write_image(slot);
        unpack_fields(*table_, dataset_.fields(), directory_, name, slot);
    }

    void write_boxes(const std::string& key, std::int64_t index, Slot& slot) const {
        const Sample& sample = slot.sample;
        if (!stays_inside(key)) {
            refuse_name(key, "");
        }
        slot.boxes = coco_->annotations(sample, index);
        slot.size = {sample.height, sample.width};
        if (sample.encoded) {
            const ImageInfo info = Decoder().info(sample.bytes);
            slot.size = {info.height, info.width};
        }
        slot.path = kCocoImages / fs::path(with_extension(key, !sample.encoded, sample.bytes));
        write_image(slot);
    }

    void add(std::int64_t index, const Slot& slot) {
        ++result_.samples;
        result_.bytes += slot.bytes;
        if (coco_) {
            coco_->add(slot.path.lexically_relative(kCocoImages).string(), slot.size.height, slot.size.width,
                       slot.boxes);
        } else if (table_->any()) {
            table_->add(slot.path, slot.sample.label, slot.cells);
        }
        ++(slot.original ? result_.original : result_.same_pixels);
        if (options_.progress) {
            options_.progress(index + 1, result_.bytes);
        }
    }

    void write_lists() const {
        if (coco_) {
            write_new(directory_ / UnpackCoco::kFile, as_bytes(coco_->json()));
        } else if (table_->any()) {
            write_new(directory_ / "labels.csv", as_bytes(table_->table()));
            if (const std::string names = table_->class_names(); !names.empty()) {
                write_new(directory_ / "classes.txt", as_bytes(names));
            }
        }
    }

    const Dataset& dataset_;
    const StkDataset* stk_;  // the data set if it is an stk one, else null
    const fs::path directory_;
    const UnpackOptions& options_;
    std::optional<UnpackCoco> coco_;
    std::optional<UnpackFields> table_;  // if coco_ is empty
    UnpackResult result_;
};

}  // namespace

UnpackResult unpack(const Dataset& dataset, const fs::path& directory, const UnpackOptions& options) {
    const UnpackResult result =
        dataset.has_image()
            ? Unpacking(dataset, directory, options).run()
            : UnpackResult{.samples = dataset.size(), .bytes = unpack_tokens(dataset, directory, options.progress)};
    const Descriptor folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() < 0 || ::syncfs(folder.get()) != 0) {
        throw errno_error(directory.string(), "the files to reach the disk");
    }
    return result;
}

}  // namespace stoker
