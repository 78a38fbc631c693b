// As in protobuf: lists of one feature are joined, numbers are packed or not, unknown fields are skipped.
#include "stoker/formats/tfrecord/tf_example.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/tfrecord/tf_wire.h"

namespace stoker {
namespace {

constexpr WireTag kPacked{.number = 1, .wire = kWireBytes};  // also one value of a list of bytes

// Calls visit(list) for the message of each list.
template <typename Visit>
void each_list(const TfFeature& feature, const Visit& visit) {
    const MemoryBytes bytes{feature.lists};
    WireReader reader(bytes, {0, feature.lists.size()});
    while (!reader.done()) {
        const WireTag tag = reader.tag();
        if (tag.wire == kWireBytes && tag.number == static_cast<std::uint64_t>(feature.kind)) {
            visit(bytes.view(reader.take_bytes()));
        } else {
            reader.skip(tag);
        }
    }
}

// Calls visit(bytes) for each value of a list of bytes, for each run of packed floats and for each single one.
template <typename Visit>
void each_piece(const TfFeature& feature, const Visit& visit) {
    each_list(feature, [&](std::span<const std::byte> list) {
        const MemoryBytes bytes{list};
        WireReader reader(bytes, {0, list.size()});
        while (!reader.done()) {
            const WireTag tag = reader.tag();
            if (tag == kPacked) {
                visit(bytes.view(reader.take_bytes()));
            } else if (feature.kind == TfKind::floats && tag == WireTag{.number = 1, .wire = kWireFixed32}) {
                visit(bytes.view(reader.take(sizeof(float))));
            } else {
                reader.skip(tag);
            }
        }
    });
}

template <typename Visit>
void each_integer(const TfFeature& feature, const Visit& visit) {
    each_list(feature, [&](std::span<const std::byte> list) {
        const MemoryBytes bytes{list};
        WireReader reader(bytes, {0, list.size()});
        while (!reader.done()) {
            const WireTag tag = reader.tag();
            if (tag == WireTag{.number = 1, .wire = kWireVarint}) {
                visit(static_cast<std::int64_t>(reader.varint()));
            } else if (tag == kPacked) {
                WireReader packed(bytes, reader.take_bytes());
                while (!packed.done()) {
                    visit(static_cast<std::int64_t>(packed.varint()));
                }
            } else {
                reader.skip(tag);
            }
        }
    });
}

std::size_t float_bytes(const TfFeature& feature) {
    std::size_t size = 0;
    each_piece(feature, [&](std::span<const std::byte> piece) {
        if (piece.size() % sizeof(float) != 0) {
            refuse_wire("packed floats of four bytes each", fmt::format("{} bytes", piece.size()));
        }
        size += piece.size();
    });
    return size;
}

}  // namespace

std::string_view tf_kind_name(TfKind kind) {
    constexpr std::string_view kNames[] = {"no values", "bytes", "floats", "integers"};
    return kNames[static_cast<std::size_t>(kind)];
}

TfFeature parse_tf_feature(std::span<const std::byte> message) {
    const MemoryBytes bytes{message};
    WireReader reader(bytes, {0, message.size()});
    TfFeature feature;
    while (!reader.done()) {
        const auto begin = static_cast<std::size_t>(reader.at());
        const WireTag tag = reader.tag();
        reader.skip(tag);
        if (tag.wire != kWireBytes || tag.number > static_cast<std::uint64_t>(TfKind::integers)) {
            continue;
        }
        if (const auto kind = static_cast<TfKind>(tag.number); kind != feature.kind) {
            feature = {.kind = kind, .lists = message.subspan(begin)};
        }
    }
    return feature;
}

std::int64_t count_values(const TfFeature& feature) {
    std::int64_t count = 0;
    switch (feature.kind) {
        case TfKind::none:
            break;
        case TfKind::bytes:
            each_piece(feature, [&](std::span<const std::byte> /*value*/) { ++count; });
            break;
        case TfKind::floats:
            count = static_cast<std::int64_t>(float_bytes(feature) / sizeof(float));
            break;
        case TfKind::integers:
            each_integer(feature, [&](std::int64_t /*value*/) { ++count; });
            break;
    }
    return count;
}

std::span<const std::byte> single_bytes(const TfFeature& feature) {
    const std::int64_t count = count_values(feature);
    std::span<const std::byte> found;
    if (feature.kind != TfKind::bytes || count != 1) {
        refuse_wire("one value of bytes", fmt::format("{} of kind {}", count, tf_kind_name(feature.kind)));
    }
    each_piece(feature, [&](std::span<const std::byte> value) { found = value; });
    return found;
}

std::optional<std::int64_t> single_integer(const TfFeature& feature) {
    if (feature.kind != TfKind::integers) {
        return std::nullopt;
    }
    std::int64_t count = 0;
    std::int64_t found = 0;
    try {
        each_integer(feature, [&](std::int64_t value) {
            found = value;
            ++count;
        });
    } catch (const DataError&) {  // found again when the record is read
        return std::nullopt;
    }
    return count == 1 ? std::optional(found) : std::nullopt;
}

std::int64_t copy_values(const TfFeature& feature, TfKind kind, Buffer& out) {
    if (feature.kind != kind && feature.kind != TfKind::none) {
        refuse_wire(fmt::format("values of kind {}", tf_kind_name(kind)), std::string(tf_kind_name(feature.kind)));
    }
    if (feature.kind == TfKind::none) {
        out.resize(0);
        return 0;
    }
    const std::int64_t count = count_values(feature);
    const std::size_t item = kind == TfKind::floats ? sizeof(float) : sizeof(std::int64_t);
    out.resize(static_cast<std::size_t>(count) * item);
    std::byte* to = out.data();
    if (kind == TfKind::floats) {
        each_piece(feature, [&](std::span<const std::byte> piece) {
            if (!piece.empty()) {
                std::memcpy(to, piece.data(), piece.size());
                to += piece.size();
            }
        });
    } else {
        each_integer(feature, [&](std::int64_t value) {
            std::memcpy(to, &value, sizeof value);
            to += sizeof value;
        });
    }
    return count;
}

std::vector<std::optional<TfFeature>> find_tf_features(std::span<const std::byte> record,
                                                       std::span<const std::string> names) {
    const MemoryBytes bytes{record};
    std::vector<std::optional<ByteRange>> places(names.size());
    walk_features(bytes, {0, record.size()}, [&](std::string_view name, const ByteRange& value) {
        for (std::size_t i = 0; i < names.size(); ++i) {  // a name may be there twice
            if (names[i] == name) {
                places[i] = value;
            }
        }
    });
    std::vector<std::optional<TfFeature>> features(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (places[i]) {
            features[i] = parse_tf_feature(bytes.view(*places[i]));
        }
    }
    return features;
}

std::vector<NamedTfFeature> all_tf_features(std::span<const std::byte> record) {
    const MemoryBytes bytes{record};
    std::map<std::string, ByteRange, std::less<>> places;
    walk_features(bytes, {0, record.size()}, [&](std::string_view name, const ByteRange& value) {
        if (const auto found = places.find(name); found != places.end()) {
            found->second = value;
        } else if (places.size() < kMostTfFeatures) {
            places.emplace(name, value);
        }
    });
    std::vector<NamedTfFeature> features;
    for (const auto& [name, value] : places) {
        features.push_back({.name = name, .feature = parse_tf_feature(bytes.view(value))});
    }
    return features;
}

bool is_sequence_example(std::span<const std::byte> record) {
    constexpr WireTag kFeatureLists{.number = 2, .wire = kWireBytes};
    const MemoryBytes bytes{record};
    WireReader reader(bytes, {0, record.size()});
    while (!reader.done()) {
        const WireTag tag = reader.tag();
        if (tag == kFeatureLists) {
            return true;
        }
        reader.skip(tag);
    }
    return false;
}

}  // namespace stoker
