// Chooses the writer, once.
#include "stoker/pipeline/writers/writers.h"

namespace stoker {
namespace {

using WriterPtr = std::unique_ptr<SampleWriter>;

struct Make {
    const WriterSetup& setup;

    WriterPtr operator()(const PixelImages& images) const { return make(images.cache, images.cache_encoded); }
    WriterPtr operator()(const ByteImages& images) const { return make(images.cache, images.cache_encoded); }
    WriterPtr operator()(const PackedImages& images) const {
        const bool too_wide = setup.fields.image().width > kAssembleWidth;
        return images.shared && too_wide ? (*this)(images.as_bytes()) : make_packed_writer(setup, images);
    }
    WriterPtr operator()(const IndexedImages& images) const { return make_indexed_writer(setup, images); }

  private:
    WriterPtr make(const CacheOptions& cache, bool encoded) const {
        return cache.bytes > 0 && !encoded ? make_cached_writer(setup, cache) : make_pixel_writer(setup, cache);
    }
};

}  // namespace

std::unique_ptr<SampleWriter> make_writer(const WriterSetup& setup) {
    return std::visit(Make{setup}, setup.options.images);
}

}  // namespace stoker
