// Packs into files of columns, HDF5 and npz: the arrays `images`, `labels`, `keys` and those of further fields. Samples
// are spooled first and the file is written at the end, which takes twice its size on disk for a while.
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/arrays/npz_writer.h"
#include "stoker/formats/hdf5/hdf5_writer.h"
#include "stoker/pack/sample_spool.h"
#include "stoker/pack/staged_target.h"
#include "stoker/pack/table_fields.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPart = std::uint64_t{64} << 20;
constexpr std::array<std::string_view, 4> kTaken = {"images", "labels", "keys", "classes"};
constexpr const char* kSizesHint =
    "x.tar, x.lmdb and x.stk hold pixels of several sizes; --skip-bad leaves out what differs";

class TableTarget : public StagedTarget {
  public:
    // `bytes`: the format has columns of byte strings.
    TableTarget(const std::filesystem::path& path, const TargetOptions& options, std::string_view format, bool bytes);

    void check_key(std::string_view key) const override { check_text(key, "keys"); }

  protected:
    void resume(const Json* state) override;
    void store(const PackedSample& sample) override;
    Json save(std::uint64_t& hash) override;
    std::uint64_t read_hash(std::size_t part, const Json* before, const Json& state) override;
    std::vector<std::string> assemble(const TargetProgress& progress) override;

    // Writes the file from the spool; `progress` takes samples and bytes of images.
    virtual void write(const std::filesystem::path& path, const TargetProgress& progress) const = 0;

    const SampleSpool& spool() const { return spool_; }
    const TableFields& columns() const { return columns_; }
    // Throws DataError for a value that is not stored as that of the first sample is, or that is encoded.
    void check_columns(const PackedSample& sample, bool encoded) const;
    // Reads the spooled images in batches, with progress.
    void read_images(const TargetProgress& progress, const std::function<void(const SpoolBatch&)>& take) const;
    std::int64_t count() const { return samples(); }
    bool empty() const { return !any_; }           // no sample yet
    bool fixed() const { return pixels_[0] > 0; }  // raw pixels of one size
    bool labelled() const { return labelled_; }
    std::size_t key_width() const { return key_width_; }  // code points of the longest key
    const std::string& first() const { return first_; }   // key of the first sample
    std::string size_text() const;                        // "28 x 28 x 1", "an encoded image"
    static std::string size_text(const StkImage& image);
    // Shape of all images as one array: (N, H, W) or (N, H, W, C).
    Shape images_shape() const;
    bool same_size(const StkImage& image) const;

  private:
    SampleSpool spool_;
    TableFields columns_;
    std::array<std::uint64_t, 3> pixels_ = {};  // height, width, channels; zeros for encoded images
    std::string first_;                         // key of the first sample
    bool any_ = false;
    bool labelled_ = false;
    std::size_t key_width_ = 1;
};

class Hdf5Target final : public TableTarget {
  public:
    Hdf5Target(const std::filesystem::path& path, const TargetOptions& options)
        : TableTarget(path, options, "hdf5", true) {}

    void check(const PackedSample& sample) const override;

  protected:
    void write(const std::filesystem::path& path, const TargetProgress& progress) const override;
};

class NpzTarget final : public TableTarget {
  public:
    NpzTarget(const std::filesystem::path& path, const TargetOptions& options)
        : TableTarget(path, options, "npz", false) {}

    void check(const PackedSample& sample) const override;

  protected:
    void write(const std::filesystem::path& path, const TargetProgress& progress) const override;
};

TableTarget::TableTarget(const fs::path& path, const TargetOptions& options, std::string_view format, bool bytes)
    : StagedTarget(path, options, format, std::min(options.shard_size, kPart)),
      spool_(names().folder),
      columns_(options.fields, names().folder, bytes, names().target) {
    check_field_names(fields(), names().target, kTaken);
    for (const std::string& name : classes()) {
        check_text(name, "class names");
    }
}

void TableTarget::resume(const Json* state) {
    spool_.resume(state);
    any_ = state != nullptr;
    const Json none = Json::array();
    const Json fields = any_ ? state->value("fields", none) : none;
    columns_.resume(any_ ? &fields : nullptr);
    if (any_) {
        pixels_ = {state_number(*state, "height"), state_number(*state, "width"), state_number(*state, "channels")};
        first_ = state_text(*state, "first");
        labelled_ = state_number(*state, "labelled") != 0;
        key_width_ = state_number(*state, "key_width");
    }
}

void TableTarget::store(const PackedSample& sample) {
    if (!any_) {
        const StkImage& image = sample.image;
        pixels_ = {static_cast<std::uint64_t>(image.height), static_cast<std::uint64_t>(image.width),
                   static_cast<std::uint64_t>(image.channels)};
        first_ = sample.key;
        any_ = true;
    }
    labelled_ = labelled_ || sample.label >= 0;
    key_width_ = std::max(key_width_, text_length(sample.key));
    spool_.add(sample.key, sample.label, sample.image.bytes);
    columns_.add(sample.fields);
}

StagedTarget::Json TableTarget::save(std::uint64_t& hash) {
    Json state = spool_.save(hash);
    state["fields"] = columns_.save(hash);
    state["height"] = pixels_[0];
    state["width"] = pixels_[1];
    state["channels"] = pixels_[2];
    state["first"] = first_;
    state["labelled"] = std::uint64_t{labelled_ ? 1U : 0U};
    state["key_width"] = std::uint64_t{key_width_};
    return state;
}

std::uint64_t TableTarget::read_hash(std::size_t /*part*/, const Json* before, const Json& state) {
    const Json none = Json::array();
    const auto fields_of = [&](const Json& of) { return of.value("fields", none); };
    const Json begin = before == nullptr ? none : fields_of(*before);
    return columns_.read_hash(before == nullptr ? nullptr : &begin, fields_of(state), spool_.read_hash(before, state));
}

std::vector<std::string> TableTarget::assemble(const TargetProgress& progress) {
    write(staged(names().file), progress);
    return {names().file};
}

std::string TableTarget::size_text(const StkImage& image) {
    return image.codec == StkCodec::raw ? fmt::format("{} x {} x {}", image.height, image.width, image.channels)
                                        : fmt::format("an encoded image ({})", stk_codec_name(image.codec));
}

std::string TableTarget::size_text() const {
    return fixed() ? fmt::format("{} x {} x {}", pixels_[0], pixels_[1], pixels_[2]) : "an encoded image";
}

bool TableTarget::same_size(const StkImage& image) const {
    const bool raw = image.codec == StkCodec::raw;
    return raw == fixed() && (!raw || (static_cast<std::uint64_t>(image.height) == pixels_[0] &&
                                       static_cast<std::uint64_t>(image.width) == pixels_[1] &&
                                       static_cast<std::uint64_t>(image.channels) == pixels_[2]));
}

Shape TableTarget::images_shape() const {
    Shape shape = {count(), static_cast<std::int64_t>(pixels_[0]), static_cast<std::int64_t>(pixels_[1])};
    if (pixels_[2] != 1) {
        shape.push_back(static_cast<std::int64_t>(pixels_[2]));
    }
    return shape;
}

void TableTarget::read_images(const TargetProgress& progress,
                              const std::function<void(const SpoolBatch&)>& take) const {
    std::int64_t samples = 0;
    std::int64_t bytes = 0;
    spool_.read(count(), true, [&](const SpoolBatch& batch) {
        take(batch);
        samples += static_cast<std::int64_t>(batch.keys.size());
        bytes += static_cast<std::int64_t>(batch.pixels.size());
        progress(samples, bytes);
    });
}

void TableTarget::check_columns(const PackedSample& sample, bool encoded) const {
    if (const auto bad = columns_.misfit(sample.fields, any_, encoded)) {
        const std::optional<StoredArray> found = stored_array(sample.fields[*bad]);
        refuse(
            sample.key,
            fmt::format("{} as {}", columns_.field(*bad).name,
                        any_ ? fmt::format("in the first sample, \"{}\": {}", first_, stored_text(columns_.array(*bad)))
                             : "an array or raw pixels"),
            stored_text(found), "x.stk, x.tar and x.lmdb hold fields of several sizes");
    }
}

// NumPy's and HDF5's row-major shape of a column.
Shape column_shape(std::int64_t count, const std::optional<StoredArray>& array) {
    Shape shape = {count};
    if (array) {
        shape.insert(shape.end(), array->shape.begin(), array->shape.end());
    }
    return shape;
}

void Hdf5Target::check(const PackedSample& sample) const {
    check_columns(sample, true);
    if (!empty() && !same_size(sample.image)) {
        refuse(sample.key, fmt::format("images like the first, \"{}\": {}", first(), size_text()),
               size_text(sample.image), fixed() ? kSizesHint : "--codec raw makes all of them pixels");
    }
}

void Hdf5Target::write(const fs::path& path, const TargetProgress& progress) const {
    Hdf5Writer file(path);
    file.begin("images", fixed() ? Hdf5Type::uint8 : Hdf5Type::vlen_uint8, fixed() ? images_shape() : Shape{count()});
    read_images(progress,
                [&](const SpoolBatch& batch) { fixed() ? file.append(batch.pixels) : file.append(batch.images); });
    file.end();
    if (labelled() || !classes().empty()) {  // classes are an attribute of labels
        file.begin("labels", Hdf5Type::int64, {count()});
        spool().read(count(), false,
                     [&](const SpoolBatch& batch) { file.append(std::as_bytes(std::span(batch.labels))); });
        if (!classes().empty()) {
            file.attribute("classes", classes());
        }
        file.end();
    }
    for (std::size_t i = 0; i < columns().size(); ++i) {
        const std::optional<StoredArray>& array = columns().array(i);
        file.begin(columns().field(i).name, array ? hdf5_type(array->dtype) : Hdf5Type::vlen_uint8,
                   column_shape(count(), array));
        columns().read(i, count(),
                       [&](const SpoolBatch& batch) { array ? file.append(batch.pixels) : file.append(batch.images); });
        file.end();
    }
    file.begin("keys", Hdf5Type::text, {count()});
    std::vector<std::span<const std::byte>> keys;
    spool().read(count(), false, [&](const SpoolBatch& batch) {
        keys.clear();
        std::ranges::transform(batch.keys, std::back_inserter(keys), as_bytes);
        file.append(keys);
    });
    file.end();
    file.finish();
}

void NpzTarget::check(const PackedSample& sample) const {
    check_columns(sample, false);
    if (sample.image.codec == StkCodec::npy) {
        refuse(sample.key, "uint8 pixels of 1 to 4 channels", "an image of another type",
               "x.h5, x.tar, x.lmdb and x.stk keep it");
    }
    if (empty() && sample.image.codec != StkCodec::raw) {
        refuse(sample.key, "raw pixels, all of one size", size_text(sample.image),
               "--codec raw makes pixels of images; those of several sizes fit x.h5, x.tar, x.lmdb and x.stk as files");
    }
    if (!empty() && !same_size(sample.image)) {
        refuse(sample.key, fmt::format("raw pixels of the first sample's size, \"{}\": {}", first(), size_text()),
               size_text(sample.image), kSizesHint);
    }
}

void NpzTarget::write(const fs::path& path, const TargetProgress& progress) const {
    AppendFile file(path);
    NpzWriter npz(file);
    npz.begin("images", "|u1", 1, images_shape());
    read_images(progress, [&](const SpoolBatch& batch) { npz.append(batch.pixels); });
    npz.end();
    if (labelled()) {
        npz.begin("labels", "<i8", 8, {count()});
        spool().read(count(), false,
                     [&](const SpoolBatch& batch) { npz.append(std::as_bytes(std::span(batch.labels))); });
        npz.end();
    }
    for (std::size_t i = 0; i < columns().size(); ++i) {
        const StoredArray array = columns().array(i).value();
        npz.begin(columns().field(i).name, npy_descr(array.dtype), static_cast<int>(item_size(array.dtype)),
                  column_shape(count(), array));
        columns().read(i, count(), [&](const SpoolBatch& batch) { npz.append(batch.pixels); });
        npz.end();
    }
    npz.begin_texts("keys", key_width(), count());
    spool().read(count(), false, [&](const SpoolBatch& batch) {
        for (const std::string_view key : batch.keys) {
            npz.append_text(key);
        }
    });
    npz.end();
    if (!classes().empty()) {
        std::size_t width = 1;
        for (const std::string& name : classes()) {
            width = std::max(width, text_length(name));
        }
        npz.begin_texts("classes", width, static_cast<std::int64_t>(classes().size()));
        for (const std::string& name : classes()) {
            npz.append_text(name);
        }
        npz.end();
    }
    npz.finish();
    file.sync();
}

}  // namespace

std::unique_ptr<PackTarget> open_hdf5_target(const fs::path& path, const TargetOptions& options) {
    return std::make_unique<Hdf5Target>(path, options);
}

std::unique_ptr<PackTarget> open_npz_target(const fs::path& path, const TargetOptions& options) {
    return std::make_unique<NpzTarget>(path, options);
}

}  // namespace stoker
