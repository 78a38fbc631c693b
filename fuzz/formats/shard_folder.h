// A folder of an index.json and one shard, for the targets of MDS and LitData. An index that
// names other files is refused, since they are missing.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "fuzz/formats/sources.h"
#include "stoker/formats/index_json.h"

namespace stoker::fuzz {

class ShardFolder {
  public:
    using Open = std::function<std::unique_ptr<Dataset>(const std::string& place, const FieldNames& fields)>;

    explicit ShardFolder(std::string shard) : shard_(std::move(shard)) {}

    void read(std::span<const std::byte> input, const Open& open) const {
        std::uint16_t length = 0;
        if (input.size() < sizeof length) {
            return;
        }
        std::memcpy(&length, input.data(), sizeof length);
        input = input.subspan(sizeof length);
        const std::size_t index = std::min<std::size_t>(length, input.size());
        const std::string place = scratch_.write("index.json", input.first(index)).string();
        scratch_.write(shard_, input.subspan(index));
        try {
            std::vector<FieldRequest> more;
            succeeds([&] {
                const auto dataset = open(place, {.image = "", .label = ""});
                read_all(*dataset);
                for (const Field& field : dataset->stored_fields()) {
                    more.push_back({.name = field.name, .kind = field.kind});
                }
            });
            succeeds([&] { read_all(*open(place, {.image = "", .label = "", .more = more})); });
        } catch (const IoError&) {  // a file that is missing, or more memory than there is
        }
    }

  private:
    static void read_all(const Dataset& dataset) {
        Sample sample;
        require(dataset.size() >= 1);
        for (std::int64_t i = 0; i < std::min<std::int64_t>(dataset.size(), 8); ++i) {
            sample.wanted = {.count = i % 4, .stride = 2};
            dataset.prefetch(std::span(&i, 1));
            dataset.key(i);
            if (!succeeds([&] { dataset.read(i, sample); })) {
                continue;
            }
            require(sample.label >= -1);
            if (dataset.has_image()) {
                require_pixels(sample);
            } else {
                require(sample.bytes.empty());
            }
            for (std::size_t at = 0; at < dataset.fields().size(); ++at) {
                const FieldValue& value = sample.field(at);
                if (!value.encoded || !value.bytes.empty()) {  // an empty image is refused by its decoder
                    require_fits(dataset.fields()[at], value);
                }
            }
        }
    }

    Scratch scratch_;
    std::string shard_;
};

}  // namespace stoker::fuzz
