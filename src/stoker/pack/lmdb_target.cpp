// Packs into LMDB: the entries "00000000", "00000001", ... are pickled dicts of key, image, label and further fields;
// __len__,
// __classes__, __keys__ and __fields__ are further entries. A part is one or more committed transactions. All entries
// have the same number of digits: as many as the last index needs, at least eight.
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/formats/lmdb/lmdb_writer.h"
#include "stoker/formats/pickle/pickle_writer.h"
#include "stoker/pack/packed_fields.h"
#include "stoker/pack/staged_target.h"

namespace stoker {
namespace {

constexpr std::uint64_t kPart = std::uint64_t{64} << 20;
constexpr int kLeastWidth = 8;

class LmdbTarget final : public StagedTarget {
  public:
    LmdbTarget(const std::filesystem::path& path, const TargetOptions& options);

    void check_key(std::string_view key) const override { check_text(key, "keys"); }

  protected:
    void resume(const Json* state) override;
    void store(const PackedSample& sample) override;
    Json save(std::uint64_t& hash) override;
    std::uint64_t read_hash(std::size_t part, const Json* before, const Json& state) override;
    std::vector<std::string> assemble(const TargetProgress& progress) override;

  private:
    LmdbWriter& writer();
    std::string key_of(std::uint64_t index) const;

    int width_;  // digits of an entry's key
    std::unique_ptr<LmdbWriter> writer_;
    std::uint64_t count_ = 0;
    StreamHash hash_;
    std::vector<std::byte> value_;
};

LmdbTarget::LmdbTarget(const std::filesystem::path& path, const TargetOptions& options)
    : StagedTarget(path, options, "lmdb", std::min(options.shard_size, kPart)),
      width_(std::max(kLeastWidth,
                      static_cast<int>(fmt::formatted_size("{}", std::max<std::int64_t>(options.samples - 1, 0))))) {
    for (const std::string& name : classes()) {
        check_text(name, "class names");
    }
    // The reader would take these for the image and the label.
    constexpr std::array<std::string_view, 2> kTaken = {"images", "labels"};
    check_field_names(fields(), names().target, kTaken);
    refuse_bfloat16(fields(), names().target);
}

// Arrays for pixels and tensors, bytes for encoded images, otherwise an int or a float.
void put_value(PickleWriter& pickle, const StkValue& value) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
        pickle.integer(*integer);
    } else if (const auto* number = std::get_if<double>(&value)) {
        pickle.real(*number);
    } else if (const std::optional<StoredArray> array = stored_array(value)) {
        pickle.array(array->dtype, array->shape, value_bytes(value));
    } else {
        pickle.bytes(value_bytes(value));
    }
}

// {name: [kind, type, side, ...]}: the samples alone do not say that a field has any length (side -1).
void put_fields(PickleWriter& pickle, std::span<const Field> fields) {
    pickle.begin_dict();
    for (const Field& field : fields) {
        pickle.text(field.name);
        pickle.begin_list();
        pickle.text(field_kind_name(field.kind));
        pickle.text(dtype_name(field.dtype));
        for (const std::int64_t side : field.shape) {
            pickle.integer(side);
        }
        pickle.end_list();
    }
    pickle.end_dict();
}

std::string LmdbTarget::key_of(std::uint64_t index) const {
    return fmt::format("{:0{}}", index, width_);
}

LmdbWriter& LmdbTarget::writer() {
    if (writer_ == nullptr) {
        writer_ = std::make_unique<LmdbWriter>(staged(names().file));
    }
    return *writer_;
}

void LmdbTarget::resume(const Json* state) {
    count_ = state == nullptr ? 0 : state_number(*state, "count");
    writer().drop_from(key_of(count_));
    if (writer().entries() != count_) {
        throw DataError({.path = staged(names().file).string()}, {.where = "lmdb",
                                                                  .expected = fmt::format("{} entries", count_),
                                                                  .got = fmt::format("{}", writer().entries()),
                                                                  .hint = "remove it"});
    }
}

void LmdbTarget::store(const PackedSample& sample) {
    PickleWriter pickle(value_);
    pickle.begin_dict();
    pickle.text("key");  // first, so that it is found without reading the image's pages
    pickle.text(sample.key);
    pickle.text("image");
    put_value(pickle, sample.image);
    pickle.text("label");
    pickle.integer(sample.label);
    for (std::size_t i = 0; i < fields().size(); ++i) {
        pickle.text(fields()[i].name);
        put_value(pickle, sample.fields[i]);
    }
    pickle.end_dict();
    pickle.finish();
    writer().put(key_of(count_), value_);
    hash_.update(value_);
    ++count_;
}

StagedTarget::Json LmdbTarget::save(std::uint64_t& hash) {
    writer().commit();
    hash = hash_.value();
    hash_.reset();
    return {{"count", count_}};
}

std::uint64_t LmdbTarget::read_hash(std::size_t /*part*/, const Json* before, const Json& state) {
    StreamHash hash;
    for (std::uint64_t i = before == nullptr ? 0 : state_number(*before, "count"); i < state_number(state, "count");
         ++i) {
        const auto value = writer().get(key_of(i));
        if (!value) {
            throw DataError({.path = staged(names().file).string(), .key = key_of(i)},
                            {.where = "lmdb", .expected = "the sample that was written", .got = "none"});
        }
        hash.update(*value);
    }
    return hash.value();
}

std::vector<std::string> LmdbTarget::assemble(const TargetProgress& /*progress*/) {
    const auto put = [&](const char* key, const auto& write_value) {
        PickleWriter pickle(value_);
        write_value(pickle);
        pickle.finish();
        writer().put(key, value_);
    };
    put("__len__", [&](PickleWriter& pickle) { pickle.integer(static_cast<std::int64_t>(count_)); });
    put("__classes__", [&](PickleWriter& pickle) {
        pickle.begin_list();
        for (const std::string& name : classes()) {
            pickle.text(name);
        }
        pickle.end_list();
    });
    put("__keys__", [](PickleWriter& pickle) { pickle.text("key"); });
    if (!fields().empty()) {
        put("__fields__", [&](PickleWriter& pickle) { put_fields(pickle, fields()); });
    }
    writer().commit();
    writer_.reset();
    return {names().file};
}

}  // namespace

std::unique_ptr<PackTarget> open_lmdb_target(const std::filesystem::path& path, const TargetOptions& options) {
    return std::make_unique<LmdbTarget>(path, options);
}

}  // namespace stoker
