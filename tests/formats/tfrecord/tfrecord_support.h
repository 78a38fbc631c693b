// Writes TFRecords and tf.train.Examples, also ones that no program writes.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stoker/base/crc32c.h"
#include "stoker/base/file.h"

namespace stoker::testing {

template <typename Number>
std::string number_bytes(Number number) {
    std::string bytes(sizeof number, '\0');
    std::memcpy(bytes.data(), &number, sizeof number);
    return bytes;
}

// One record with correct checksums.
inline std::string tf_record(std::string_view data) {
    const std::string length = number_bytes(std::uint64_t{data.size()});
    return length + number_bytes(masked_crc32c(as_bytes(length))) + std::string(data) +
           number_bytes(masked_crc32c(as_bytes(data)));
}

inline std::string tf_varint(std::uint64_t value) {
    std::string bytes;
    for (; value >= 0x80; value >>= 7) {
        bytes += static_cast<char>(value | 0x80);
    }
    return bytes + static_cast<char>(value);
}

// A field whose value is a message, text or packed numbers.
inline std::string tf_field(unsigned number, std::string_view bytes) {
    return tf_varint(number << 3 | 2) + tf_varint(bytes.size()) + std::string(bytes);
}

// ---- Features ----

inline std::string tf_texts(std::initializer_list<std::string_view> values) {
    std::string list;
    for (const std::string_view value : values) {
        list += tf_field(1, value);
    }
    return tf_field(1, list);
}

inline std::string tf_floats(std::initializer_list<float> values, bool packed = true) {
    std::string list;
    for (const float value : values) {
        list += (packed ? "" : "\x0d") + number_bytes(value);
    }
    return tf_field(2, packed ? tf_field(1, list) : list);
}

inline std::string tf_integers(std::initializer_list<std::int64_t> values, bool packed = true) {
    std::string list;
    for (const std::int64_t value : values) {
        list += (packed ? "" : "\x08") + tf_varint(std::bit_cast<std::uint64_t>(value));
    }
    return tf_field(3, packed ? tf_field(1, list) : list);
}

using TfFeatures = std::vector<std::pair<std::string, std::string>>;

inline std::string tf_example(const TfFeatures& features) {
    std::string map;
    for (const auto& [name, feature] : features) {
        map += tf_field(1, tf_field(1, name) + tf_field(2, feature));
    }
    return tf_field(1, map);
}

// Begins as a PNG; no reader of data sets looks further.
inline std::string tf_image(std::string_view rest) {
    return "\x89PNG\r\n\x1a\n" + std::string(rest);
}

inline std::string tf_sample(std::string_view image, std::int64_t label) {
    return tf_example({{"image/encoded", tf_texts({tf_image(image)})}, {"image/class/label", tf_integers({label})}});
}

}  // namespace stoker::testing
