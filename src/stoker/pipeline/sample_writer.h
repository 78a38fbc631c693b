// How a sample gets into a batch. There is a class for each way (writers/), of which a loader chooses one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "stoker/pipeline/batch.h"
#include "stoker/pipeline/loader_fields.h"
#include "stoker/pipeline/loader_options.h"
#include "stoker/pipeline/sample_reader.h"
#include "stoker/pipeline/sample_task.h"

namespace stoker {

// What a loader gives its writer; all of it outlives the writer.
struct WriterSetup {
    const Dataset& dataset;
    const Transform& transform;
    const LoaderOptions& options;
    const LoaderFields& fields;  // with shapes
    std::int64_t capacity;       // samples of a full batch
};

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
    virtual void write(const SampleTask& task) = 0;
    // Zeros instead of a sample, label -1, and no entries.
    void clear(const ItemPlace& place) const {
        for (int view = 0; view < fields_.views(); ++view) {
            clear_view(view, place);
        }
        fields_.clear(place);
    }

    // Where the samples come from; null: nothing is read.
    virtual SampleReader* reader() { return nullptr; }

    // Images that take less memory, which the loader may make instead. Empty: it may not.
    virtual std::optional<ImageOptions> smaller() const { return std::nullopt; }

  protected:
    // `spec_of_view`: the field of a view of the image.
    SampleWriter(const WriterSetup& setup, const std::function<FieldSpec(int view)>& spec_of_view)
        : transform_(setup.transform), fields_(setup.fields), specs_(fields_.specs(spec_of_view)) {}

    virtual void clear_view(int view, const ItemPlace& place) const {
        std::ranges::fill(place.bytes(fields_.view_at(view)), std::byte{0});
    }

    const Transform& transform_;
    const LoaderFields& fields_;

  private:
    const std::vector<FieldSpec> specs_;
};

// The writer that `setup.options.images` asks for. Throws InvalidArgument for images that it cannot make.
std::unique_ptr<SampleWriter> make_writer(const WriterSetup& setup);

}  // namespace stoker
