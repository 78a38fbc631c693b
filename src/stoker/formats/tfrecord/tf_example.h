// tf.train.Example in memory: its features by name, and the values of one. protobuf is not needed, and would copy the
// image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/buffer.h"

namespace stoker {

enum class TfKind : std::uint8_t { none = 0, bytes = 1, floats = 2, integers = 3 };  // the numbers in the schema

// "bytes", "floats", "integers", "no values"
std::string_view tf_kind_name(TfKind kind);

// One feature: a list of values of one kind.
struct TfFeature {
    TfKind kind = TfKind::none;
    std::span<const std::byte> lists = {};  // part of the record: messages of this kind, which count as one list
};

// Parses the message of a feature. As in protobuf, the last kind counts. Throws DataError.
TfFeature parse_tf_feature(std::span<const std::byte> message);

// The number of values. Throws DataError for damaged bytes.
std::int64_t count_values(const TfFeature& feature);

// The one value of a list of bytes. Throws DataError for another kind or number of values.
std::span<const std::byte> single_bytes(const TfFeature& feature);

// The one value of a list of integers; empty for another kind or number, and for damaged bytes.
std::optional<std::int64_t> single_integer(const TfFeature& feature);

// Replaces `out` by the values of a list of floats (float32), or of integers (int64), and returns their number. Throws
// DataError for another kind, MemoryError for more than fit into memory.
std::int64_t copy_values(const TfFeature& feature, TfKind kind, Buffer& out);

// The features of `record` with these names; empty where it has none. Throws DataError.
std::vector<std::optional<TfFeature>> find_tf_features(std::span<const std::byte> record,
                                                       std::span<const std::string> names);

struct NamedTfFeature {
    std::string name;
    TfFeature feature;
};

// More features than any writer makes are not listed.
inline constexpr std::size_t kMostTfFeatures = 10'000;

// All features, sorted by name. Throws DataError.
std::vector<NamedTfFeature> all_tf_features(std::span<const std::byte> record);

// True if the record has the lists of a tf.train.SequenceExample, which else looks like an Example.
bool is_sequence_example(std::span<const std::byte> record);

}  // namespace stoker
