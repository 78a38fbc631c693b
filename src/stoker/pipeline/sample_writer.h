// How a sample gets into a batch. There is a class for each way (writers/); a loader chooses one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "stoker/pipeline/batch.h"
#include "stoker/pipeline/loader_fields.h"
#include "stoker/pipeline/loader_options.h"

namespace stoker {

class SampleWriter {
  public:
    SampleWriter(const SampleWriter&) = delete;
    SampleWriter& operator=(const SampleWriter&) = delete;
    virtual ~SampleWriter() = default;

    // The fields of every batch.
    const std::vector<FieldSpec>& fields() const { return specs_; }

    // Writes images and further fields to the sample's place, and leaves its label in the scratch. Sets
    // `scratch.drawn` before anything that depends on the random numbers. Throws DataError for a bad sample.
    // Thread-safe.
    virtual void write(const SampleTask& task) const = 0;
    // Zeros instead of the images.
    virtual void clear(const ItemPlace& place) const;
    // Images that take less memory, which the loader may make instead. Empty: it may not.
    virtual std::optional<ImageOptions> smaller() const { return std::nullopt; }

    bool reads() const { return cache_options_.has_value(); }  // samples of the data set
    // A hint: these samples are read soon.
    void prefetch(std::span<const std::int64_t> indices) const;
    // Call it when the batches' memory is claimed, which the cache then leaves alone. Throws IoError if the cache's
    // directory cannot be written to.
    void open_cache() { cache_ = make_sample_cache(fields_.dataset().size(), cache_options_.value_or(CacheOptions())); }
    const SampleCache* cache() const { return cache_.get(); }  // null: none

  protected:
    // `spec_of_view`: the field of a view of the image. `cache`: empty for a writer that reads nothing.
    SampleWriter(const LoaderFields& fields, std::optional<CacheOptions> cache,
                 const std::function<FieldSpec(int view)>& spec_of_view)
        : transform_(fields.transform()),
          fields_(fields),
          specs_(fields.specs(spec_of_view)),
          cache_options_(std::move(cache)) {}

    // Reads and checks the task's sample. True: it is as keep() got it.
    bool read(const SampleTask& task) const;
    // Caches the sample, if there is a cache with memory for it.
    void keep(const SampleTask& task) const;

    const Transform& transform_;
    const LoaderFields& fields_;

  private:
    // The clips of one video share it.
    std::int64_t cached_index(std::int64_t index) const { return index / fields_.options().clips.per_sample; }

    const std::vector<FieldSpec> specs_;
    const std::optional<CacheOptions> cache_options_;
    std::unique_ptr<SampleCache> cache_;
};

// The writer for the images that the options ask for. `fields` have shapes and outlive it. Throws InvalidArgument for
// images that cannot be made.
std::unique_ptr<SampleWriter> make_writer(const LoaderFields& fields);

// Decodes images and runs their ops, up to the pixels in the batch.
std::unique_ptr<SampleWriter> make_pixel_writer(const LoaderFields& fields, const PixelImages& images);

// Writes what a device decodes: the part of a dct record that the crop needs, still packed, and the draws of the ops. A
// sample whose image a device cannot make, or need not, gets pixels. Throws InvalidArgument for images that are too
// wide for a device.
std::unique_ptr<SampleWriter> make_packed_writer(const LoaderFields& fields, const PackedImages& images);

// Writes a number and draws for each image. Throws InvalidArgument for images of other samples, and for a data set or
// ops that need the host.
std::unique_ptr<SampleWriter> make_indexed_writer(const LoaderFields& fields, const IndexedImages& images);

}  // namespace stoker
