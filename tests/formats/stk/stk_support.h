// Small stk data sets with every kind of field; the values follow from the index.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "stoker/formats/stk/stk.h"
#include "stoker/formats/stk/stk_writer.h"

namespace stoker::testing {

inline std::string random_bytes(std::size_t size, std::uint32_t seed) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) {
        seed = seed * 1664525u + 1013904223u;
        byte = static_cast<char>(seed >> 24);
    }
    return bytes;
}

inline const std::vector<std::string> kClasses = {"cat", "dog", "not utf-8: \xff\xfe"};

inline StkSchema every_kind() {
    return {{{.name = "image", .kind = StkKind::image},
             {.name = "label", .kind = StkKind::label, .classes = kClasses},
             {.name = "id", .kind = StkKind::integer},
             {.name = "weight", .kind = StkKind::number},
             {.name = "caption", .kind = StkKind::bytes},
             {.name = "boxes", .kind = StkKind::tensor, .dtype = DType::float32, .rank = 2}}};
}

// The values of sample `index` and the memory that they view.
struct StkSample {
    explicit StkSample(std::int64_t index)
        : key(fmt::format("{}/{:04}.jpg", kClasses[static_cast<std::size_t>(index % 3)], index)),
          image(random_bytes(index % 4 == 3 ? 2 * 5 * 3 : static_cast<std::size_t>(1 + index * 37 % 300),
                             static_cast<std::uint32_t>(index))),
          caption(random_bytes(static_cast<std::size_t>(index % 5) * 20, static_cast<std::uint32_t>(index) + 99)),
          boxes(static_cast<std::size_t>(index % 3) * 4, static_cast<float>(index) / 2) {
        const bool raw = index % 4 == 3;
        values = {StkImage{.bytes = as_bytes(image),
                           .codec = raw ? StkCodec::raw : StkCodec::jpeg,
                           .height = raw ? 2 : 0,
                           .width = raw ? 5 : 0,
                           .channels = raw ? 3 : 0,
                           .original_file = index % 2 == 0},
                  index % 3 == 2 ? std::int64_t{-1} : index % 3,
                  (std::int64_t{1} << 60) - index,
                  static_cast<double>(index) / 7,
                  StkBytes(as_bytes(caption)),
                  TensorView{reinterpret_cast<std::byte*>(boxes.data()), DType::float32, {index % 3, 4}}};
    }

    std::string key;
    std::string image;
    std::string caption;
    std::vector<float> boxes;
    std::vector<StkValue> values;
};

inline void write_every_kind(const std::filesystem::path& directory, std::int64_t count, std::uint64_t shard_size) {
    StkWriter writer(directory, every_kind(), {.shard_size = shard_size});
    for (std::int64_t i = 0; i < count; ++i) {
        const StkSample sample(i);
        writer.add(sample.key, sample.values);
    }
    writer.finish("{}");
}

inline std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace stoker::testing
