// Helpers for the targets of data sets. Inputs are written to files in memory (/dev/shm if it exists). A data set
// must refuse an input with DataError or Unsupported, or read every sample that it counts.
#pragma once

#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "fuzz/promise.h"
#include "stoker/base/error.h"
#include "stoker/formats/dataset.h"

namespace stoker::fuzz {

// A temporary folder, removed when the program ends.
class Scratch {
  public:
    Scratch() {
        const std::filesystem::path memory = "/dev/shm";
        const auto root = std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
        std::string pattern = (root / "stoker-fuzz-XXXXXX").string();
        if (::mkdtemp(pattern.data()) == nullptr) {
            throw std::runtime_error("cannot make " + pattern);
        }
        path_ = pattern;
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() {
        std::error_code ignored;  // a leftover in the temporary folder is harmless
        std::filesystem::remove_all(path_, ignored);
    }

    const std::filesystem::path& path() const { return path_; }

    // Replaces the file of that name.
    std::filesystem::path write(const std::string& name, std::span<const std::byte> content) const {
        const std::filesystem::path path = path_ / name;
        std::ofstream file(path, std::ios::binary | std::ios::trunc);
        file.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
        if (!file.flush()) {
            throw std::runtime_error("cannot write " + path.string());
        }
        return path;
    }

  private:
    std::filesystem::path path_;
};

// False if `call` throws one of the two errors that hostile bytes may cause.
template <typename Call>
bool succeeds(Call call) {
    try {
        call();
        return true;
    } catch (const DataError&) {
        return false;
    } catch (const Unsupported&) {
        return false;
    }
}

// Reads each byte, so that the sanitizer checks it.
inline void touch(std::span<const std::byte> bytes) {
    std::uint8_t sum = 0;
    for (const std::byte byte : bytes) {
        sum = static_cast<std::uint8_t>(sum ^ std::to_integer<std::uint8_t>(byte));
    }
    static volatile std::uint8_t kept = 0;
    kept = static_cast<std::uint8_t>(kept ^ sum);
}

// Checks raw pixels, or those of each frame.
inline void require_pixels(const FieldValue& value) {
    if (!value.frames.empty()) {
        std::ranges::for_each(value.frames, require_pixels);
        return;
    }
    touch(value.bytes);
    if (!value.encoded) {
        require(value.height >= 1 && value.width >= 1 && value.channels >= 1 && value.channels <= kMaxChannels);
        require(value.bytes.size() == static_cast<std::size_t>(value.height) * static_cast<std::size_t>(value.width) *
                                          static_cast<std::size_t>(value.channels) *
                                          item_size(value.dtype.value_or(DType::uint8)));
    }
}

// Checks that the value is one of the field.
inline void require_fits(const Field& field, const FieldValue& value) {
    touch(value.bytes);
    if (value.encoded) {
        require(has_pixels(field.kind) && !value.bytes.empty());
    } else if (has_pixels(field.kind)) {
        require_pixels(value);
    } else {
        const std::size_t item = field.item_bytes();
        require(field.any_length() ? (item == 0 ? value.bytes.empty() : value.bytes.size() % item == 0)
                                   : value.bytes.size() == item);
    }
}

// Reads the first and the last samples of a data set and checks their labels, sizes, classes and keys.
inline void read_samples(const Dataset& dataset) {
    static Sample sample;  // reused, as in a worker
    require(dataset.size() >= 1);
    const std::int64_t some = std::min<std::int64_t>(dataset.size(), 8);
    for (std::int64_t i = 0; i < 2 * some; ++i) {
        const std::int64_t index = i < some ? i : dataset.size() - 1 - (i - some);
        sample.wanted = {.count = index % 4, .stride = 2};
        require(succeeds([&] { dataset.read(index, sample); }));
        require(sample.label >= -1 && dataset.label(index).value_or(sample.label) == sample.label);
        if (!dataset.has_image()) {
            require(sample.bytes.empty());
        } else {
            require_pixels(sample);
        }
        const auto classes = static_cast<std::int64_t>(dataset.classes().size());
        require(classes == 0 || sample.label < classes);
        dataset.key(index);  // must not throw
    }
}

// Reads the first and the last sample with all fields that the data set holds. `open` takes requests.
template <typename Open>
void read_as_fields(const Open& open) {
    succeeds([&] {
        std::vector<FieldRequest> more;
        for (const Field& field : open(more).stored_fields()) {
            more.push_back({.name = field.name, .kind = field.kind});
        }
        const auto dataset = open(more);
        require(dataset.fields().size() == more.size());
        Sample sample;
        for (const std::int64_t index : {std::int64_t{0}, dataset.size() - 1}) {
            succeeds([&] {
                dataset.read(index, sample);
                for (std::size_t i = 0; i < more.size(); ++i) {
                    const FieldValue& value = sample.field(i);
                    if (!value.encoded || !value.bytes.empty()) {  // an empty image is refused by its decoder
                        require_fits(dataset.fields()[i], value);
                    }
                }
            });
        }
    });
}

}  // namespace stoker::fuzz
